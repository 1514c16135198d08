"""The way to one other node: dialled at all its addresses, greeted, kept, dialled anew when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import grpc.aio

from ringleader.errors import NodeUnreachable, NotTrusted
from ringleader.net.addresses import dial_target, resolve
from ringleader.trust.channels import open_channel
from ringleader.trust.credentials import Credentials
from ringleader.trust.revocations import COME_BACK
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION, RELAY_MESSAGE_BYTES_MAX, channel_options

DIAL_DEADLINE_S = 3.0  # to the greeting
UNANSWERED_TOLD = 4  # tries, some ten seconds: an address that a person gave may be wrong, or another cluster's
PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 1.0  # between tries, each of which goes on for DIAL_DEADLINE_S
UNSENT_MAX = 64  # words; past that they are dropped, as the network might
ADDRESSES_MAX = 16  # of one node
HEAD_START_S, HEAD_START_MAX_S = 0.25, 1.0  # of the first address on the second, and on the last
MARK_KEY = "ringleader-mark"  # of a call to the mesh: the process that calls, so that it knows itself

# Each line has its connections to itself, and dials at once when it wants to, not when gRPC's own pause is over.
_OPTIONS = [
    *channel_options(RELAY_MESSAGE_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

log = logging.getLogger("ringleader.net")

T = TypeVar("T")

_TROUBLE = (NodeUnreachable, NotTrusted, grpc.aio.AioRpcError, TimeoutError)  # of the network, or of who answers


@dataclass(frozen=True, slots=True)
class Self:
    """What a line says of this node and hears for it. `mark` is this process' own."""

    node: NodeId
    mark: str
    credentials: Credentials | None
    revocations: Callable[[], bytes]
    hear_revocations: Callable[[bytes], None]


@dataclass(slots=True)
class Line:
    """`node` None: whoever answers at the addresses, told by `node` until nobody answers there any more.

    `on_met(line, node)` says who answered; False ends the line: another one leads there. It raises NotTrusted where
    that node is not wanted. `on_up` and `on_down` are called on the loop.
    """

    own: Self
    addresses: list[str]
    node: NodeId | None
    on_met: Callable[[Line, NodeId], bool]
    on_up: Callable[[NodeId], None]
    on_down: Callable[[NodeId, str], None]
    channel: grpc.aio.Channel | None = None  # while it is up
    _unsent: asyncio.Queue[pb.MeshMessage | None] = field(default_factory=asyncio.Queue)  # None: no more comes
    _try: asyncio.Task[None] | None = None
    _told: str = ""  # the last trouble that went to the log
    _unanswered: int = 0  # tries in a row
    _redial: asyncio.Event = field(default_factory=asyncio.Event)
    _over: str = ""  # why this node ends the line
    _anybody: bool = field(init=False)

    def __post_init__(self) -> None:
        self._anybody = self.node is None

    def add(self, addresses: Sequence[str]) -> None:
        """Dial these, too; what was told last comes first. At once, if the line is not up."""
        before = set(self.addresses)
        self.addresses[:] = list(dict.fromkeys([*addresses, *self.addresses]))[:ADDRESSES_MAX]
        if self.channel is None and not before >= set(addresses) and len(before) < ADDRESSES_MAX:
            self.redial()  # with as many as that it must go on at some time

    def say(self, message: pb.MeshMessage, *, always: bool = False) -> None:
        """Send it if the line is up; dropped otherwise, and when too much is unsent unless `always`."""
        if self.channel is not None and (always or self._unsent.qsize() < UNSENT_MAX):
            self._unsent.put_nowait(message)

    def redial(self) -> None:
        """Give up the connection and dial at once."""
        self._redial.set()
        if self._try is not None:
            self._try.cancel()

    def finish(self, reason: str) -> None:
        """End the line once the other node has read all that was said."""
        self._over = reason
        if self.channel is None:
            self.redial()
        else:
            self._unsent.put_nowait(None)

    def hang_up(self, reason: str) -> None:
        """End the line now."""
        self._over = reason
        self.redial()

    async def keep(self) -> None:
        """Until cancelled, or ended, or `on_met` says so."""
        pause_s = PAUSE_FIRST_S
        while not self._over:
            self._redial.clear()
            self._try = asyncio.create_task(self._once(), name=f"try of {self.node or self.addresses}")
            try:
                await asyncio.wait({self._try})
            finally:
                error = await _end(self._try)
            if isinstance(error, _NotWanted):
                return
            pause_s = self._after(error, pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._redial.wait()

    def _after(self, error: BaseException | None, pause_s: float) -> float:
        """What is said of a try that ended; how long to wait after it."""
        if error is None:
            self._told, self._unanswered = "", 0
            return PAUSE_FIRST_S
        self._unanswered += 1
        if self._anybody and self._unanswered == UNANSWERED_TOLD:
            log.warning("nobody of this cluster answers at %s; tried until somebody does", ", ".join(self.addresses))
        if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.PERMISSION_DENIED:
            # It may have been forgotten before it could be told: this is how its owner learns of it.
            error = NotTrusted(f"node {self.node or self.addresses[0]}: {error.details()}. {COME_BACK}")
        trouble, whom = str(error), self.node or ", ".join(self.addresses)
        if isinstance(error, grpc.aio.AioRpcError):
            trouble = f"node {whom} does not hear this one: {error.details()}"
        if self._anybody:
            self.node = None  # another may be there by now
        if trouble == self._told:
            pass
        elif _is_refusal(error):
            self._told = trouble
            log.warning("%s", trouble)
        elif not isinstance(error, _TROUBLE):  # a bug: no reason to lose the node for ever
            self._told = trouble
            log.error("the line to %s failed", whom, exc_info=error)
        return min(2 * pause_s, PAUSE_MAX_S)

    async def _once(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(DIAL_DEADLINE_S):
                channel = await self._first_to_answer(stack)
                unsent: asyncio.Queue[pb.MeshMessage | None] = asyncio.Queue()
                hello = pb.MeshHello(version=PROTOCOL_VERSION, node=self.own.node, revocations=self.own.revocations())
                unsent.put_nowait(pb.MeshMessage(hello=hello))
                call = rpc.MeshStub(channel).Tell(_sent(unsent), metadata=((MARK_KEY, self.own.mark),))
                stack.callback(call.cancel)
                stack.callback(unsent.put_nowait, None)  # gRPC itself leaves it unread when the other side ends first
                greetings = aiter(call)
                node = await self._greeted(greetings)
            if self.node is None:
                self.node = node
                if self.own.credentials is not None:
                    return  # dialled again, now for this node and no other
            await self._listen(node, channel, unsent, greetings)

    async def _listen(
        self,
        node: NodeId,
        channel: grpc.aio.Channel,
        unsent: asyncio.Queue[pb.MeshMessage | None],
        greetings: AsyncIterator[pb.MeshGreeting],
    ) -> None:
        """The line is up until the other side, the network or this one ends it."""
        self._unsent, self.channel, reason = unsent, channel, ""
        self.on_up(node)
        try:
            async for _ in greetings:
                pass
            reason = "it ended the connection"
        except grpc.aio.AioRpcError as error:
            reason = error.details() or error.code().name
        finally:
            self.channel = None
            self.on_down(node, self._over or reason or "it is dialled anew")

    async def _first_to_answer(self, stack: contextlib.AsyncExitStack) -> grpc.aio.Channel:
        """A channel that stands, to whichever address answers first; the others are closed.

        Each address gets a head start on the next (as in RFC 8305): connections that are given up half way look to
        the other node like those of strangers.
        """
        opened: dict[str, grpc.aio.Channel | None] = {}

        async def at(address: str) -> grpc.aio.Channel:
            if not (targets := await resolve(address)):
                raise NodeUnreachable(f"{address} is not known on any network here")
            return await _first([ready(dial_target(each)) for each in targets])

        async def ready(target: str) -> grpc.aio.Channel:
            if target in opened or len(opened) >= ADDRESSES_MAX:
                raise NodeUnreachable(f"{target} is being dialled already")
            opened[target] = None
            await asyncio.sleep(min(HEAD_START_S * (len(opened) - 1), HEAD_START_MAX_S))
            channel = opened[target] = open_channel(target, _OPTIONS, self.own.credentials, self.node)
            stack.push_async_callback(channel.close, None)
            await channel.channel_ready()
            return channel

        first = await _first([at(address) for address in self.addresses])
        for channel in opened.values():
            if channel is not None and channel is not first:
                await channel.close(None)
        return first

    async def _greeted(self, greetings: AsyncIterator[pb.MeshGreeting]) -> NodeId:
        """Who answered. Raises NotTrusted when it does not want to hear this node, or speaks another version."""
        greeting = await anext(greetings, None)
        if greeting is None:
            raise NodeUnreachable("it hung up without a word")
        node = NodeId(greeting.node)
        if self.node not in (None, node):  # in the clear nothing else would show it
            raise NodeUnreachable(f"node {node} answers where {self.node} is dialled")
        if node == self.own.node:
            raise _NotWanted
        if greeting.revocations:
            self.own.hear_revocations(greeting.revocations)
        if greeting.refused:
            raise NotTrusted(f"node {node} does not hear this one: {greeting.refused}")
        if not self.on_met(self, node):
            raise _NotWanted
        return node


def _is_refusal(error: BaseException) -> bool:
    """Whether somebody answered, and will answer the same again until a person has done something."""
    denied = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.PERMISSION_DENIED
    return denied or isinstance(error, NotTrusted)


class _NotWanted(Exception):
    """This line leads to ourselves, or where another one leads."""


async def _sent(unsent: asyncio.Queue[pb.MeshMessage | None]) -> AsyncIterator[pb.MeshMessage]:
    while (message := await unsent.get()) is not None:
        yield message


async def _first(tries: Sequence[Coroutine[Any, Any, T]]) -> T:
    """What the first of them gives that succeeds; the others are cancelled. Raises the last trouble if none does."""
    tasks = [asyncio.create_task(each) for each in tries]
    trouble: BaseException = NodeUnreachable("it has no address")
    try:
        for ended in asyncio.as_completed(tasks):
            try:
                return await ended
            except _TROUBLE as error:
                trouble = error
        raise trouble
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            await _end(task)


async def _end(task: asyncio.Task[Any]) -> BaseException | None:
    """Cancel a task and wait until it is gone; what it raised."""
    task.cancel()
    await asyncio.wait({task})
    return None if task.cancelled() else task.exception()
