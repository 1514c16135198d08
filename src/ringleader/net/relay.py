"""The wire of requests between nodes: one call for each request, its answer as a stream; and short questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio

from ringleader.errors import MasterMoved
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId

ASK_DEADLINE_S = 3.0

Context = grpc.aio.ServicerContext[Any, Any]


class RelayService(rpc.RelayServicer):
    """The answering end. `answer` gives an answer's messages, and is closed when the caller leaves."""

    def __init__(
        self, answer: Callable[[bytes], AsyncGenerator[bytes, None]], ask: Callable[[bytes], Awaitable[bytes]]
    ) -> None:
        self._answer = answer
        self._ask = ask

    async def Answer(self, request: pb.RelayMessage, context: Context) -> AsyncIterator[pb.RelayMessage]:
        """One request that another node took in."""
        async with aclosing(self._answer(request.json)) as messages:
            async for message in messages:
                yield pb.RelayMessage(json=message)

    async def Ask(self, request: pb.RelayMessage, context: Context) -> pb.RelayMessage:
        """One question."""
        return pb.RelayMessage(json=await self._ask(request.json))


class RelayCall:
    """The asking end of one answer. Raises MasterMoved when the other node is lost under it, or `drop` was called."""

    def __init__(self, channel: grpc.aio.Channel | None, asked: bytes) -> None:
        self._lost = "" if channel is not None else "the master cannot be reached"
        self._call = None if channel is None else rpc.RelayStub(channel).Answer(pb.RelayMessage(json=asked))
        self._hung_up = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._call is None or self._lost:
            raise MasterMoved(self._lost)
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise MasterMoved(self._lost or f"the master is gone: {error.details() or error.code().name}") from error
        except asyncio.CancelledError:
            if self._hung_up or _cancelled():
                self._call.cancel()
                raise
            # gRPC says so of a call that was dropped, or whose connection this node gave up.
            raise MasterMoved(self._lost or "the connection to the master was given up") from None
        if not isinstance(message, pb.RelayMessage):
            raise StopAsyncIteration
        return message.json

    @property
    def done(self) -> bool:
        """Nothing more comes."""
        return self._call is None or self._call.done()

    def cancel(self) -> None:
        """Hang up."""
        self._hung_up = True
        if self._call is not None:
            self._call.cancel()

    def drop(self, reason: str) -> None:
        """There is another master now: whoever reads is told."""
        self._lost = self._lost or reason
        if self._call is not None:
            self._call.cancel()


def _cancelled() -> bool:
    """Whether the running task was told to end, which is not the same as a call that was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Relays:
    """The asking ends of all relays of a node. `channel` is the way to another node, None while there is none."""

    def __init__(self, channel: Callable[[NodeId], grpc.aio.Channel | None]) -> None:
        self._channel = channel

    def call(self, node: NodeId, asked: bytes) -> RelayCall:
        """Have `node` answer a request."""
        return RelayCall(self._channel(node), asked)

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        """Its answer, or None when none comes in time."""
        if (channel := self._channel(node)) is None:
            return None
        try:
            answer = await rpc.RelayStub(channel).Ask(pb.RelayMessage(json=question), timeout=ASK_DEADLINE_S)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):  # no answer, or a channel that was closed just now
            return None
        except asyncio.CancelledError:
            if _cancelled():
                raise
            return None  # the connection was given up meanwhile
        return bytes(answer.json)
