"""A node that answers from a script, and the API served over it on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ringleader.api.app import ApiServer, make_app, serve
from ringleader.api.contracts import ModelCard
from ringleader.values import (
    Answer,
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    Json,
    ModelId,
    ReasoningDelta,
    TextDelta,
    Usage,
)

MODEL = ModelId("smollm2-135m")
USAGE = Usage(
    prompt_tokens=11,
    completion_tokens=7,
    reasoning_tokens=2,
    forced_tokens=3,
    passes=4,
    drafted_tokens=9,
    accepted_tokens=4,
)
HELLO: tuple[Delta, ...] = (TextDelta("Hel"), TextDelta("lo ☀"), Finished("stop", USAGE))
CALLS: tuple[Delta, ...] = (
    ReasoningDelta("hm"),
    CallStarted(0, "get_weather"),
    ArgumentsDelta(0, '{"city": '),
    ArgumentsDelta(0, '"Oslo"}'),
    CallEnded(0),
    CallStarted(1, "now"),
    CallEnded(1),
    Finished("tool_calls", USAGE),
)
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
NOW: Json = {"type": "function", "function": {"name": "now"}}

Step = Delta | Exception | asyncio.Event  # an event is waited for


class ScriptedDeltas:
    """Plays the steps; tells by `waiting` that it is at an event, by `closed` and `cancelled` how it ended."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self.pulled = 0
        self.closings = 0
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()
        self.cancelled = False

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        while self.pulled < len(self._steps):
            step = self._steps[self.pulled]
            self.pulled += 1
            if isinstance(step, asyncio.Event):
                self.waiting.set()
                try:
                    await step.wait()
                except asyncio.CancelledError:
                    self.cancelled = True
                    raise
            elif isinstance(step, Exception):
                raise step
            else:
                return step
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closings += 1
        self.closed.set()


class ScriptedNode:
    """Answerer, ModelShelf and ClusterView in one. The first request gets `steps`, the next ones `others`."""

    def __init__(
        self,
        steps: Sequence[Step] = HELLO,
        *others: Sequence[Step],
        refuse: Exception | None = None,
        hold: asyncio.Event | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.deltas = ScriptedDeltas(steps)
        self.others = [ScriptedDeltas(each) for each in others]
        self.requests: list[ChatRequest] = []
        self.arrived = asyncio.Event()
        self.abandoned = asyncio.Event()
        self.picture: dict[str, Json] = {"name": "home", "nodes": [], "rings": []}
        self.status = "ok"
        self.refusals: list[Exception] = []  # of the first requests, one each
        self._refuse, self._hold, self._warnings = refuse, hold, warnings

    async def answer(self, request: ChatRequest) -> Answer:
        self.requests.append(request)
        self.arrived.set()
        try:
            if self._hold is not None:
                await self._hold.wait()
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
        if self.refusals:
            self.requests.pop()
            raise self.refusals.pop(0)
        if self._refuse is not None:
            raise self._refuse
        number = len(self.requests) - 1
        return Answer(request.model, [self.deltas, *self.others][number], self._warnings)

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        return {1: b"Hi", 2: b" \xe2", 3: "é".encode()}[token]

    async def cards(self) -> list[ModelCard]:
        return [
            ModelCard(ModelId("org/big"), 1700000000, loaded=False),
            ModelCard(MODEL, 1700000001, loaded=True, context_max=8192),
            ModelCard(ModelId("/models/mine"), 1700000002, loaded=False),
        ]

    async def cluster(self) -> dict[str, Json]:
        return self.picture

    def health(self) -> dict[str, Json]:
        return {"status": self.status}


@asynccontextmanager
async def served(node: ScriptedNode, **options: Any) -> AsyncIterator[ApiServer]:
    """The API over `node` on a free loopback port. A test that ends does not wait for answers."""
    server = await serve(make_app(node, node, node, **options), port=0, shutdown_s=0.05)
    try:
        yield server
    finally:
        await server.close()


def body(**fields: Json) -> dict[str, Json]:
    """A valid request's body, and `fields`."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **fields}
