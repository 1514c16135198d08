"""The reader of an answer: in order, ahead but not far, and always closed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ringleader.api.feed import AHEAD_MAX, Closers, DeltaFeed
from ringleader.errors import OurFault, RingLost
from ringleader.values import Delta, Finished, TextDelta
from tests.api.scripted import HELLO, USAGE, ScriptedDeltas


async def test_deltas_come_in_order_and_are_closed_once() -> None:
    deltas = ScriptedDeltas(HELLO)
    async with DeltaFeed([deltas], Closers()) as feed:
        assert [await feed.next() for _ in HELLO] == [(0, delta) for delta in HELLO]
    assert deltas.closings == 1


async def test_silence_is_none_and_loses_nothing() -> None:
    go = asyncio.Event()
    deltas = ScriptedDeltas([go, TextDelta("a")])
    async with DeltaFeed([deltas], Closers()) as feed:
        assert await feed.next(0.001) is None
        assert await feed.next(0.001) is None
        go.set()
        assert await feed.next(5) == (0, TextDelta("a"))
    assert not deltas.cancelled


async def test_errors_arrive_after_the_deltas_before_them() -> None:
    async with DeltaFeed([ScriptedDeltas([TextDelta("a"), RingLost("gone")])], Closers()) as feed:
        assert await feed.next() == (0, TextDelta("a"))
        with pytest.raises(RingLost):
            await feed.next()


async def test_an_answer_that_just_ends_is_our_fault() -> None:
    async with DeltaFeed([ScriptedDeltas([])], Closers()) as feed:
        with pytest.raises(OurFault):
            await feed.next()


async def test_a_reader_that_waits_holds_the_node_back() -> None:
    deltas = ScriptedDeltas([TextDelta(str(index)) for index in range(100)])
    async with DeltaFeed([deltas], Closers()) as feed:
        await feed.next()
        for _ in range(50):
            await asyncio.sleep(0)
        assert deltas.pulled <= AHEAD_MAX + 2


async def test_leaving_at_once_still_closes() -> None:
    deltas = ScriptedDeltas(HELLO)
    async with DeltaFeed([deltas], Closers()):
        pass
    assert deltas.closings == 1


async def test_cancelling_while_it_waits_closes_even_when_cancelled_again() -> None:
    slow = asyncio.Event()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def deltas() -> AsyncIterator[Delta]:
        try:
            yield TextDelta("a")
            await asyncio.Event().wait()
        finally:
            begun.set()
            await slow.wait()
            ended.set()

    closers = Closers()

    async def handle() -> None:
        async with DeltaFeed([deltas()], closers) as feed:
            while True:
                await feed.next()

    handler = asyncio.create_task(handle())
    await asyncio.sleep(0.01)
    handler.cancel()
    await begun.wait()
    handler.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handler
    assert not ended.is_set()
    slow.set()
    await closers.wait()
    assert ended.is_set()


async def test_an_error_while_closing_harms_nobody() -> None:
    async def deltas() -> AsyncIterator[Delta]:
        try:
            while True:
                yield Finished("stop", USAGE)
        finally:
            raise RingLost("while it closed")

    closers = Closers()
    async with asyncio.timeout(2):
        async with DeltaFeed([deltas()], closers) as feed:
            await feed.next()
        await closers.wait()


async def test_a_node_that_turns_the_cancel_into_an_error_does_not_hang() -> None:
    full = asyncio.Event()

    async def deltas() -> AsyncIterator[Delta]:
        for _ in range(AHEAD_MAX):
            yield TextDelta("unread")
        full.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RingLost("cancelled") from None

    async with asyncio.timeout(2):
        async with DeltaFeed([deltas()], Closers()):
            await full.wait()


async def test_choices_come_side_by_side_each_in_its_own_order() -> None:
    go = asyncio.Event()
    first, second = ScriptedDeltas([TextDelta("a"), go, *HELLO]), ScriptedDeltas([TextDelta("b"), *HELLO])
    seen: dict[int, list[Delta]] = {0: [], 1: []}
    async with asyncio.timeout(2):
        async with DeltaFeed([first, second], Closers()) as feed:
            while len(seen[1]) < 1 + len(HELLO):
                choice, delta = await feed.next() or (0, TextDelta("nothing"))
                seen[choice].append(delta)
            assert second.closings == 1  # it is over, whatever the other one does
            go.set()
            while len(seen[0]) < 1 + len(HELLO):
                choice, delta = await feed.next() or (1, TextDelta("nothing"))
                seen[choice].append(delta)
    assert seen == {0: [TextDelta("a"), *HELLO], 1: [TextDelta("b"), *HELLO]}
    assert first.closings == 1


async def test_one_choices_error_ends_all_and_leaving_closes_all() -> None:
    slow, never = ScriptedDeltas([asyncio.Event()]), ScriptedDeltas([RingLost("gone")])
    full = ScriptedDeltas([TextDelta("unread")] * 2 * AHEAD_MAX)
    async with asyncio.timeout(2):
        with pytest.raises(RingLost):
            async with DeltaFeed([slow, never, full], Closers()) as feed:
                while True:
                    await feed.next()
    assert [each.closings for each in (slow, never, full)] == [1, 1, 1]
    assert slow.cancelled
