"""Words between nodes: one line to each other node, and the calls that they keep to this one.

Decides nothing: who is dialled it is told; words go up as they come, with the identity of who sent them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from ringleader.errors import NotTrusted
from ringleader.net.line import MARK_KEY, Line, Self
from ringleader.trust.credentials import Credentials
from ringleader.trust.guard import caller
from ringleader.trust.refusals import Refusals
from ringleader.trust.revocations import FORGOTTEN, Revocations, accept, load_list
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import CONTROL_MESSAGE_BYTES_MAX, PROTOCOL_VERSION

HELLO_DEADLINE_S = 5.0
REVOCATIONS_POLL_S = 1.0
ID_CHARACTERS_MAX = 64  # of a node that no certificate names

log = logging.getLogger("ringleader.net")

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Ears:
    """What the mesh tells, on the loop: a word and who said it; that a line stands; that the way to or from a node
    broke, when there is no other that way."""

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
        self._mark = secrets.token_hex(8)
        self._own = Self(me, self._mark, credentials, self._list_bytes, self._hear_list)
        self._list: Revocations | None = None if credentials is None else load_list(credentials)
        self._lines: list[Line] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._callers: Counter[NodeId] = Counter()  # the streams of each that are heard now
        self._closed = False

    # ------------------------------------------------------------ this node speaks

    def dial(self, addresses: Sequence[str], node: NodeId | None = None) -> None:
        """Keep a line to whoever is at the addresses (host:port each): one line for each node."""
        if self._closed or (node is not None and self._revoked(node)):
            return
        line = self._line(node) if node is not None else None
        if line is None and node is None:
            line = next(
                (each for each in self._lines if each.node is None and set(addresses) <= {*each.addresses}), None
            )
        if line is not None:
            line.add(addresses)
            return
        line = Line(self._own, list(addresses), node, self._met, self._ears.up, self._ears.down)
        self._lines.append(line)
        task = asyncio.create_task(self._keep(line), name=f"line to {node or addresses}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, line: Line) -> None:
        try:
            await line.keep()
        finally:
            self._lines = [each for each in self._lines if each is not line]

    def _met(self, line: Line, node: NodeId) -> bool:
        if self._revoked(node):
            raise NotTrusted(f"node {node} was revoked: nothing is said to it")
        other = next((each for each in self._lines if each.node == node and each is not line), None)
        if other is not None:
            other.add(line.addresses)
        return other is None

    def send(self, to: NodeId, word: bytes) -> None:
        """Say it if there is a line; it is dropped otherwise."""
        message = pb.MeshMessage(word=word)
        if message.ByteSize() > CONTROL_MESSAGE_BYTES_MAX:  # whoever reads it would hang up
            self._refusals.note(f"a word for node {to}: it is longer than words may be")
        elif (line := self._line(to)) is not None:
            line.say(message)

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

    async def farewell(self, deadline_s: float) -> None:
        """End every line, once the other node has read what was said, or the deadline has passed."""
        self._closed = True
        for line in list(self._lines):
            line.finish("this node was told to stop")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=deadline_s)

    async def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ others speak

    async def Tell(self, messages: AsyncIterator[pb.MeshMessage], context: Context) -> AsyncIterator[pb.MeshGreeting]:
        """One node's line to this one, from its hello to its end."""
        reader = aiter(messages)
        hello = await self._hello(reader)
        peer, refused = self._identify(hello, context)
        greeting = pb.MeshGreeting(
            version=PROTOCOL_VERSION, node=self._me, refused=refused, revocations=self._list_bytes()
        )
        if refused or hello is None:
            if not self._is_myself(context):
                self._refusals.note(f"node {peer}: {refused}")
            yield greeting
            return
        reason = "it hung up"
        self._callers[peer] += 1
        try:
            yield greeting
            if hello.revocations:
                self._hear_list(hello.revocations)
            async for message in reader:
                if message.ByteSize() > CONTROL_MESSAGE_BYTES_MAX:
                    reason = "it sent a word that is too long"
                    self._refusals.note(f"node {peer}: {reason}")
                    return
                if self._revoked(peer):  # at once; the guard of the port looks twice a second
                    reason = "it was revoked"
                    return
                if message.HasField("word"):
                    self._ears.word(peer, message.word)
                elif message.HasField("revocations"):
                    self._hear_list(message.revocations)
        except grpc.aio.AioRpcError as error:
            reason = error.details() or error.code().name
        finally:
            self._callers[peer] -= 1
            if not self._callers[peer]:  # it may have dialled anew before the old stream was found broken
                del self._callers[peer]
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
        if self._credentials is not None:
            peer = caller(context, self._credentials.cluster) or NodeId("unknown")
        elif 0 < len(hello.node) <= ID_CHARACTERS_MAX and hello.node.isprintable():
            peer = NodeId(hello.node)
        else:
            return NodeId("unknown"), "its hello does not say which node it is"
        if hello.version != PROTOCOL_VERSION:
            return peer, f"it speaks protocol {hello.version}, this node {PROTOCOL_VERSION}: update the older one"
        if self._revoked(peer):
            return peer, "it was revoked"
        return peer, "it has this node's own id: two nodes with one state directory?" if peer == self._me else ""

    def _is_myself(self, context: Context) -> bool:
        """An address that was told of another node may be this one's."""
        return (MARK_KEY, self._mark) in [(each[0], each[1]) for each in context.invocation_metadata() or ()]

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

    def _revoked(self, node: NodeId) -> bool:
        return self._list is not None and node in self._list.nodes

    def _pass_on(self, newer: Revocations) -> None:
        """Tell everybody, and hang up on who is in it."""
        self._list = newer
        if self._me in newer.nodes:
            log.error("%s", FORGOTTEN)
        for line in list(self._lines):
            if line.node in newer.nodes:
                line.hang_up("it was revoked")
            else:
                line.say(pb.MeshMessage(revocations=bytes(newer)), always=True)

    async def watch_revocations(self) -> None:
        """Until cancelled: notice what `ringleader cluster forget` wrote on this machine."""
        if self._credentials is None:
            return
        while True:
            await asyncio.sleep(REVOCATIONS_POLL_S)
            try:
                found = load_list(self._credentials)
            except NotTrusted as error:
                self._refusals.note(f"the list of revoked nodes here: {error}")
                continue
            if self._list is None or found.number > self._list.number:
                self._pass_on(found)
