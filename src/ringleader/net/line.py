"""The way to one other node: dialled at all its addresses at once, greeted, kept, dialled anew when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio

from ringleader.errors import NodeUnreachable, NotTrusted
from ringleader.net.addresses import dial_target, resolve
from ringleader.trust.channels import open_channel
from ringleader.trust.credentials import Credentials
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION, RELAY_MESSAGE_BYTES_MAX, channel_options

DIAL_DEADLINE_S = 3.0  # to the greeting
PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 2.0
UNSENT_MAX = 64  # words; past that they are dropped, as the network might
ADDRESSES_MAX = 16  # of one node, dialled at once

# Each line has its connections to itself, and dials at once when it wants to, not when gRPC's own pause is over.
_OPTIONS = [
    *channel_options(RELAY_MESSAGE_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

log = logging.getLogger("ringleader.net")

_TROUBLE = (NodeUnreachable, NotTrusted, grpc.aio.AioRpcError, TimeoutError)  # of the network, or of who answers


@dataclass(frozen=True, slots=True)
class Self:
    """What a line says of this node and hears for it."""

    node: NodeId
    credentials: Credentials | None
    revocations: Callable[[], bytes]
    hear_revocations: Callable[[bytes], None]


@dataclass(slots=True)
class Line:
    """`node` None until somebody has answered at the addresses. `on_up` and `on_down` are called on the loop.

    `on_met(line, node)` says who answered; False ends the line: it is this node, or another line has it.
    """

    own: Self
    addresses: list[str]
    node: NodeId | None
    on_met: Callable[[Line, NodeId], bool]
    on_up: Callable[[NodeId], None]
    on_down: Callable[[NodeId, str], None]
    channel: grpc.aio.Channel | None = None  # while it is up
    _unsent: asyncio.Queue[pb.MeshMessage] = field(default_factory=asyncio.Queue)
    _try: asyncio.Task[None] | None = None
    _told: str = ""  # the last trouble that went to the log
    _redial: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, addresses: Sequence[str]) -> None:
        """Dial these, too; what was told last comes first."""
        self.addresses[:] = list(dict.fromkeys([*addresses, *self.addresses]))[:ADDRESSES_MAX]

    def say(self, message: pb.MeshMessage) -> None:
        """Send it if the line is up; dropped otherwise."""
        if self.channel is not None and self._unsent.qsize() < UNSENT_MAX:
            self._unsent.put_nowait(message)

    def redial(self) -> None:
        """Give up the connection and dial at once."""
        self._redial.set()
        if self._try is not None:
            self._try.cancel()

    async def keep(self) -> None:
        """Until cancelled, or `on_met` says so."""
        pause_s = PAUSE_FIRST_S
        while True:
            self._redial.clear()
            self._try = asyncio.create_task(self._once(), name=f"line to {self.node or self.addresses}")
            try:
                await asyncio.wait({self._try})
            finally:
                self._try.cancel()
            error = None if self._try.cancelled() else self._try.exception()
            if isinstance(error, _NotWanted):
                return
            if error is not None and not isinstance(error, _TROUBLE):
                raise error
            pause_s = self._after(error, pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._redial.wait()

    def _after(self, error: BaseException | None, pause_s: float) -> float:
        """What is said of a try that ended; how long to wait after it."""
        if error is None:
            self._told = ""
            return PAUSE_FIRST_S
        trouble = str(error)
        if isinstance(error, NotTrusted) and trouble != self._told:
            self._told = trouble
            log.warning("%s", trouble)
        return min(2 * pause_s, PAUSE_MAX_S)

    async def _once(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(DIAL_DEADLINE_S):
                channel = await self._first_to_answer(stack)
                unsent: asyncio.Queue[pb.MeshMessage] = asyncio.Queue()
                hello = pb.MeshHello(version=PROTOCOL_VERSION, node=self.own.node, revocations=self.own.revocations())
                unsent.put_nowait(pb.MeshMessage(hello=hello))
                call = rpc.MeshStub(channel).Tell(_sent(unsent))
                stack.callback(call.cancel)
                greetings = aiter(call)
                node = await self._greeted(greetings)
            if node != self.node:
                self.node = node
                return  # dialled again, now for this node and no other
            self._unsent, self.channel, reason = unsent, channel, "its connection broke"
            self.on_up(node)
            try:
                async for _ in greetings:
                    pass
            except grpc.aio.AioRpcError as error:
                reason = error.details() or error.code().name
            finally:
                self.channel = None
                self.on_down(node, reason)

    async def _first_to_answer(self, stack: contextlib.AsyncExitStack) -> grpc.aio.Channel:
        """A channel that stands, to whichever address answers first; the others are closed."""
        found = await asyncio.gather(*(resolve(address) for address in self.addresses))
        targets = list(dict.fromkeys(dial_target(address) for several in found for address in several))
        if not targets:
            raise NodeUnreachable(f"{', '.join(self.addresses)} is not known on any network here")
        channels = []
        for target in targets[:ADDRESSES_MAX]:
            channel = open_channel(target, _OPTIONS, self.own.credentials, self.node)
            stack.push_async_callback(channel.close, None)
            channels.append(channel)
        waits = {asyncio.create_task(channel.channel_ready()): channel for channel in channels}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        first = waits[done.pop()]
        for channel in channels:
            if channel is not first:
                await channel.close(None)
        return first

    async def _greeted(self, greetings: AsyncIterator[pb.MeshGreeting]) -> NodeId:
        """Who answered. Raises NotTrusted when it does not want to hear this node, or speaks another version."""
        greeting = await anext(greetings, None)
        if greeting is None:
            raise NodeUnreachable("it hung up without a word")
        if greeting.revocations:
            self.own.hear_revocations(greeting.revocations)
        node = NodeId(greeting.node)
        if greeting.refused:
            raise NotTrusted(f"node {node} does not hear this one: {greeting.refused}")
        if not self.on_met(self, node):
            raise _NotWanted
        return node


class _NotWanted(Exception):
    """This line leads to ourselves, or where another one leads."""


async def _sent(unsent: asyncio.Queue[pb.MeshMessage]) -> AsyncIterator[pb.MeshMessage]:
    while True:
        yield await unsent.get()
