"""Words between nodes: one line to each other node, and the calls that they keep to this one.

Decides nothing: who is dialled it is told; words go up as they come, with the identity of who sent them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from ringleader.errors import NotTrusted
from ringleader.net.line import Line, Self
from ringleader.trust.credentials import Credentials
from ringleader.trust.guard import caller
from ringleader.trust.refusals import Refusals
from ringleader.trust.revocations import Revocations, RevokedNodes, accept, load_list
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import CONTROL_MESSAGE_BYTES_MAX, PROTOCOL_VERSION

HELLO_DEADLINE_S = 5.0
REVOCATIONS_POLL_S = 1.0

log = logging.getLogger("ringleader.net")

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Ears:
    """What the mesh tells, on the loop: a word and who said it; that a line stands; that a way to or from broke."""

    word: Callable[[NodeId, bytes], None]
    up: Callable[[NodeId], None]
    down: Callable[[NodeId, str], None]


class Mesh(rpc.MeshServicer):
    """One node's. `ears` hear what comes; identity is the certificate's, or without credentials the caller's word."""

    def __init__(self, me: NodeId, credentials: Credentials | None, ears: Ears, refusals: Refusals) -> None:
        self._me = me
        self._credentials = credentials
        self._ears = ears
        self._refusals = refusals
        self._own = Self(me, credentials, self._list_bytes, self._hear_list)
        self._list: Revocations | None = None if credentials is None else load_list(credentials)
        self._lines: list[Line] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}

    # ------------------------------------------------------------ this node speaks

    def dial(self, addresses: Sequence[str], node: NodeId | None = None) -> None:
        """Keep a line to whoever is at the addresses (host:port each): one line for each node."""
        line = self._line(node) if node is not None else None
        if line is None:
            line = next((each for each in self._lines if set(addresses) <= set(each.addresses)), None)
        if line is not None:
            line.add(addresses)
            return
        line = Line(self._own, list(addresses), node, self._met, self._ears.up, self._ears.down)
        self._lines.append(line)
        self._tasks[id(line)] = asyncio.create_task(self._keep(line), name=f"line to {node or addresses}")

    async def _keep(self, line: Line) -> None:
        try:
            await line.keep()
        except asyncio.CancelledError:
            raise
        except Exception:  # a task's root
            log.exception("the line to %s failed", line.node or line.addresses)
        finally:
            self._lines = [each for each in self._lines if each is not line]
            self._tasks.pop(id(line), None)

    def _met(self, line: Line, node: NodeId) -> bool:
        if node == self._me:
            return False
        other = next((each for each in self._lines if each.node == node and each is not line), None)
        if other is not None:
            other.add(line.addresses)
        return other is None

    def send(self, to: NodeId, word: bytes) -> None:
        """Say it if there is a line; it is dropped otherwise."""
        if (line := self._line(to)) is not None:
            line.say(pb.MeshMessage(word=word))

    def redial(self) -> None:
        """Every connection may be dead without knowing."""
        for line in list(self._lines):
            line.redial()

    def channel(self, node: NodeId) -> grpc.aio.Channel | None:
        """The connection to a node while its line stands, for calls of other services."""
        line = self._line(node)
        return None if line is None else line.channel

    def _line(self, node: NodeId) -> Line | None:
        return next((line for line in self._lines if line.node == node), None)

    async def close(self) -> None:
        """Hang up everywhere."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ others speak

    async def Tell(self, messages: AsyncIterator[pb.MeshMessage], context: Context) -> AsyncIterator[pb.MeshGreeting]:
        """One node's line to this one, from its hello to its end."""
        reader = aiter(messages)
        hello = await self._hello(reader)
        peer, refused = self._identify(hello, context)
        yield pb.MeshGreeting(version=PROTOCOL_VERSION, node=self._me, refused=refused, revocations=self._list_bytes())
        if refused or hello is None:
            self._refusals.note(f"node {peer}: {refused}")
            return
        if hello.revocations:
            self._hear_list(hello.revocations)
        reason = "it hung up"
        try:
            async for message in reader:
                if message.ByteSize() > CONTROL_MESSAGE_BYTES_MAX:
                    reason = "it sent a word that is too long"
                    self._refusals.note(f"node {peer}: {reason} ({message.ByteSize()} bytes)")
                    return
                if message.HasField("word"):
                    self._ears.word(peer, message.word)
                elif message.HasField("revocations"):
                    self._hear_list(message.revocations)
        except grpc.aio.AioRpcError as error:
            reason = error.details() or error.code().name
        finally:
            self._ears.down(peer, reason)

    async def _hello(self, reader: AsyncIterator[pb.MeshMessage]) -> pb.MeshHello | None:
        try:
            async with asyncio.timeout(HELLO_DEADLINE_S):
                first = await anext(reader, None)
        except TimeoutError:
            return None
        return first.hello if first is not None and first.HasField("hello") else None

    def _identify(self, hello: pb.MeshHello | None, context: Context) -> tuple[NodeId, str]:
        """Who calls, and why it is not heard ("": it is)."""
        if hello is None:
            return NodeId("unknown"), "the first message must be a hello"
        peer = NodeId(hello.node)
        if self._credentials is not None:
            peer = caller(context, self._credentials.cluster) or NodeId("unknown")
        if hello.version != PROTOCOL_VERSION:
            return peer, f"it speaks protocol {hello.version}, this node {PROTOCOL_VERSION}: update the older one"
        return peer, "it has this node's own id: two nodes with one state directory?" if peer == self._me else ""

    # ------------------------------------------------------------ who is revoked goes from node to node

    def _list_bytes(self) -> bytes:
        return b"" if self._list is None else bytes(self._list)

    def _hear_list(self, data: bytes) -> None:
        if self._credentials is None:
            return
        try:
            newer = accept(self._credentials, data)
        except NotTrusted as error:
            self._refusals.note(f"a list of revoked nodes: {error}")
            return
        if newer is not None:
            self._pass_on(newer)

    def _pass_on(self, newer: Revocations) -> None:
        """Tell everybody, and hang up on who is in it."""
        self._list = newer
        for line in list(self._lines):
            if line.node in newer.nodes:
                self._tasks[id(line)].cancel()
            else:
                line.say(pb.MeshMessage(revocations=bytes(newer)))

    async def watch_revocations(self) -> None:
        """Until cancelled: notice what `ringleader cluster forget` wrote on this machine."""
        if self._credentials is None:
            return
        revoked = RevokedNodes(self._credentials)
        while True:
            await asyncio.sleep(REVOCATIONS_POLL_S)
            try:
                revoked.look()
                found = load_list(self._credentials)
            except NotTrusted as error:
                self._refusals.note(f"the list of revoked nodes here: {error}")
                continue
            if self._list is None or found.number > self._list.number:
                self._pass_on(found)
