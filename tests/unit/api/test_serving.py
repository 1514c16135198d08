"""The way of every answer: what is said when, and what happens before the client knows that it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from ringleader.api.fault_table import Fault
from ringleader.api.feed import Closers
from ringleader.api.serving import Serving
from ringleader.errors import Busy
from ringleader.values import ChatRequest, Delta, Finished, ModelId, Sampling, TextDelta
from tests.api.scripted import HELLO, USAGE, ScriptedNode

ASKED = ChatRequest(ModelId("m"), (), Sampling(seed=1))


class Lines:
    """A stream that is a list of what was written to it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.response = web.StreamResponse()
        self.kept_alive_twice = asyncio.Event()

    async def start(self) -> None:
        self.written.append("start")

    async def send(self, event: Any) -> None:
        self.written.append(str(event))

    async def keep_alive(self) -> None:
        self.written.append("alive")
        if self.written.count("alive") == 2:
            self.kept_alive_twice.set()

    async def comment(self, text: str) -> None:
        self.written.append(f"comment {text}")

    async def finish(self) -> None:
        self.written.append("finish")

    async def fail(self, fault: Fault, request_id: str) -> None:
        self.written.append("fail")


class Names:
    """Writes of each delta its class' name."""

    def __init__(self) -> None:
        self.complete = False

    def begin(self) -> Iterator[str]:
        yield "begin"

    def of(self, index: int, delta: Delta) -> Iterator[str]:
        self.complete = isinstance(delta, Finished)
        yield type(delta).__name__

    def add(self, index: int, delta: Delta) -> None:
        self.complete = isinstance(delta, Finished)


def serving(node: ScriptedNode, keep_alive_s: float = 5) -> Serving:
    return Serving(node, Closers(), keep_alive_s=keep_alive_s)


async def test_what_must_be_done_before_the_end_is_done_before_the_last_events() -> None:
    lines = Lines()

    async def keep() -> None:
        lines.written.append("kept")

    served = serving(ScriptedNode(HELLO))
    async with served.accepted([ASKED]) as (_, feed):
        await served.stream(lines, feed, Names(), before_end=keep)
    assert lines.written == ["start", "begin", "TextDelta", "TextDelta", "kept", "Finished", "finish"]


async def test_silence_is_filled_and_begins_the_stream_too() -> None:
    pause, lines = asyncio.Event(), Lines()
    served = serving(ScriptedNode([pause, *HELLO]), keep_alive_s=0.01)
    async with served.accepted([ASKED]) as (_, feed):
        task = asyncio.create_task(served.stream(lines, feed, Names()))
        async with asyncio.timeout(5):
            await lines.kept_alive_twice.wait()
        pause.set()
        await task
    assert lines.written[:4] == ["start", "begin", "alive", "alive"]
    assert lines.written[-2:] == ["Finished", "finish"]


async def test_a_warning_that_comes_at_the_end_is_a_comment_in_a_stream_and_a_header_else() -> None:
    steps = [TextDelta("a"), Finished("stop", USAGE, ("say\nless",))]
    served, lines = serving(ScriptedNode(steps, steps, warnings=("early",))), Lines()
    async with served.accepted([ASKED]) as (_, feed):
        await served.stream(lines, feed, Names())
    assert "comment warning: say less" in lines.written
    async with served.accepted([ASKED]) as (answer, feed):
        headers = await served.whole(answer, feed, Names())
    assert headers == {"Warning": '299 ringleader "early", 299 ringleader "say less"'}


async def test_a_refusal_starts_no_stream() -> None:
    served = serving(ScriptedNode(refuse=Busy("full")))
    try:
        async with served.accepted([ASKED]):
            raise AssertionError("it was accepted")
    except Busy:
        pass
