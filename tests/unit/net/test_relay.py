"""Both ends of a relay over real gRPC: whoever leaves is noticed, whoever is lost is told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ringleader.errors import MasterMoved
from ringleader.net import relay as room
from ringleader.net.relay import RelayCall, Relays
from ringleader.trust.channels import open_channel
from ringleader.values import NodeId
from ringleader.wire import RELAY_MESSAGE_BYTES_MAX
from tests.security.clusters import make_cluster
from tests.unit.net.stations import HEARD_WITHIN_S, Station

FRAMING_BYTES = 16  # of protobuf, around a message's bytes


@pytest.fixture(params=["clear", "tls"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Station, Station]]:
    """A node, and the master to which it has a line."""
    cluster = make_cluster(tmp_path) if request.param == "tls" else None
    a, b = (Station(name, None if cluster is None else cluster.member(name)) for name in ("a", "b"))
    await a.open()
    await b.open()
    await a.meet(b)
    yield a, b
    await a.close()
    await b.close()


def call(a: Station, b: Station, asked: bytes = b"for ever") -> RelayCall:
    return Relays(a.mesh.channel).call(b.node, asked)


async def first(answers: RelayCall) -> bytes:
    async with asyncio.timeout(HEARD_WITHIN_S):
        return await anext(answers)


async def drain(answers: RelayCall) -> None:
    async with asyncio.timeout(HEARD_WITHIN_S):
        async for _ in answers:
            pass


async def hung_up(station: Station) -> None:
    async with asyncio.timeout(HEARD_WITHIN_S):
        await station.hung_up.wait()


async def test_an_answer_comes_message_by_message_and_ends(pair: tuple[Station, Station]) -> None:
    answers = call(*pair, asked=b"once")
    assert [message async for message in answers] == [b"once"]
    assert answers.done


async def test_a_caller_that_hangs_up_ends_the_answer_at_the_master(pair: tuple[Station, Station]) -> None:
    answers = call(*pair)
    assert await first(answers) == b"for ever"
    answers.cancel()
    await hung_up(pair[1])


async def test_a_caller_whose_task_is_cancelled_is_cancelled_and_has_hung_up(pair: tuple[Station, Station]) -> None:
    answers = call(*pair)
    reading = asyncio.create_task(drain(answers))
    await asyncio.sleep(0.1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await hung_up(pair[1])


async def test_a_task_that_is_cancelled_while_its_call_is_dropped_is_cancelled(pair: tuple[Station, Station]) -> None:
    answers = call(*pair)
    reading = asyncio.create_task(drain(answers))
    await first_word_read(pair[1])
    answers.drop("another node is master now")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def first_word_read(master: Station) -> None:
    """Until the master answers; nothing tells, so a moment more than it takes."""
    await asyncio.sleep(0.1)
    assert not master.hung_up.is_set()


async def test_whoever_reads_a_dropped_call_is_told_why_and_so_is_the_master(pair: tuple[Station, Station]) -> None:
    answers = call(*pair)
    await first(answers)
    reading = asyncio.create_task(drain(answers))
    await asyncio.sleep(0)
    answers.drop("another node is master now")
    answers.drop("and yet another")
    with pytest.raises(MasterMoved, match="another node is master now"):
        await reading
    with pytest.raises(MasterMoved, match="another node is master now"):
        await first(answers)
    await hung_up(pair[1])


async def test_a_master_that_ends_is_told_of(pair: tuple[Station, Station]) -> None:
    answers = call(*pair)
    await first(answers)
    await pair[1].close()
    with pytest.raises(MasterMoved):
        await drain(answers)


async def test_a_connection_that_this_node_gives_up_is_a_loss_and_no_end_of_the_reader(
    pair: tuple[Station, Station],
) -> None:
    answers = call(*pair)
    await first(answers)
    reading = asyncio.create_task(drain(answers))
    await asyncio.sleep(0)
    pair[0].mesh.redial()
    with pytest.raises(MasterMoved):
        await reading


async def test_without_a_line_to_the_master_the_call_is_lost_at_once(pair: tuple[Station, Station]) -> None:
    answers = Relays(pair[0].mesh.channel).call(NodeId("nobody"), b"once")
    assert answers.done
    answers.cancel()
    with pytest.raises(MasterMoved, match="cannot be reached"):
        await first(answers)


async def test_a_request_as_large_as_the_limit_passes_both_ways_and_a_larger_one_is_a_loss(
    pair: tuple[Station, Station],
) -> None:
    large = bytes(RELAY_MESSAGE_BYTES_MAX - FRAMING_BYTES)
    assert await first(call(*pair, asked=large)) == large
    with pytest.raises(MasterMoved):
        await first(call(*pair, asked=bytes(RELAY_MESSAGE_BYTES_MAX + 1)))
    pair[0].mesh.send(pair[1].node, b"and words go on")
    assert await pair[1].word(pair[0]) == b"and words go on"


async def test_a_question_is_answered_or_given_up_in_time(
    pair: tuple[Station, Station], monkeypatch: pytest.MonkeyPatch
) -> None:
    relays = Relays(pair[0].mesh.channel)
    assert await relays.ask(pair[1].node, b"who?") == b"who?"
    assert await relays.ask(NodeId("nobody"), b"who?") is None
    monkeypatch.setattr(room, "ASK_DEADLINE_S", 0.1)
    assert await relays.ask(pair[1].node, b"never") is None


async def test_a_question_whose_connection_is_given_up_has_no_answer(pair: tuple[Station, Station]) -> None:
    asking = asyncio.create_task(Relays(pair[0].mesh.channel).ask(pair[1].node, b"never"))
    await asyncio.sleep(0.1)
    pair[0].mesh.redial()
    assert await asking is None


async def test_a_question_over_a_channel_that_was_closed_just_now_has_no_answer() -> None:
    channel = open_channel("127.0.0.1:1", [], None)
    await channel.close(None)
    assert await Relays(lambda node: channel).ask(NodeId("b"), b"who?") is None


async def test_a_question_whose_asker_leaves_is_cancelled(pair: tuple[Station, Station]) -> None:
    asking = asyncio.create_task(Relays(pair[0].mesh.channel).ask(pair[1].node, b"never"))
    await asyncio.sleep(0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
