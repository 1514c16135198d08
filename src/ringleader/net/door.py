"""The founder's join door: lets in who brings an invitation, and serves members that want something of the founder.

Whoever else knocks gets a refusal, or nothing, and takes no more than one of few places for a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ringleader.errors import NodeUnreachable, NotTrusted
from ringleader.net.door_wire import (
    DOOR_DEADLINE_S,
    DOOR_REQUEST_BYTES_MAX,
    read_message,
    server_context,
    shown_names,
    write_message,
)
from ringleader.trust import invitations
from ringleader.trust.authority import load_authority, requested_key
from ringleader.trust.cluster import forget
from ringleader.trust.credentials import ID, Credentials, node_of
from ringleader.trust.guard import HANDSHAKE_DEADLINE_S
from ringleader.trust.members import Member, add_member, printable, read_members
from ringleader.trust.private_files import read_json, write_json
from ringleader.trust.refusals import Refusals
from ringleader.trust.revocations import load_list
from ringleader.v1 import join_pb2 as pb
from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION

VISITORS_MAX = 32  # at once; more are turned away unheard
DOOR_FILE = "door.json"  # where the door is, for `ringleader cluster invite`

log = logging.getLogger("ringleader.net")


class JoinDoor:
    """Listens while the founder's node runs. `peers` gives the control addresses that a new member is told."""

    def __init__(
        self, credentials: Credentials, peers: Callable[[], Sequence[str]], refusals: Refusals | None = None
    ) -> None:
        self._credentials = credentials
        self._authority = load_authority(credentials.directory)
        self._peers = peers
        self._refusals = refusals or Refusals()
        self._visits: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._porter: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, addresses: Sequence[str]) -> int:
        """Listen; returns the port. `addresses` are this machine's hosts as others see them, for invitations.

        Raises NodeUnreachable when the address is taken.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = host == "::" and socket.has_dualstack_ipv6()
        try:
            listener = socket.create_server((host, port), family=family, backlog=VISITORS_MAX, dualstack_ipv6=both)
        except OSError as error:
            raise NodeUnreachable(f"the join port {host}:{port} cannot be used: {error.strerror}") from error
        listener.setblocking(False)
        self._socket = listener
        bound = int(listener.getsockname()[1])
        where = [f"[{each}]:{bound}" if ":" in each else f"{each}:{bound}" for each in addresses]
        write_json(self._credentials.directory / DOOR_FILE, {"addresses": where})
        self._porter = asyncio.create_task(self._receive(listener), name="join door")
        return bound

    async def close(self) -> None:
        """Stop listening and turn out who is inside."""
        tasks = [task for task in (self._porter, *self._visits) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        (self._credentials.directory / DOOR_FILE).unlink(missing_ok=True)

    async def _receive(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                visitor, address = await loop.sock_accept(listener)
            except OSError as error:  # out of file descriptors; it passes
                log.warning("the join door cannot take a visitor: %s", error)
                await asyncio.sleep(1.0)
                continue
            if len(self._visits) >= VISITORS_MAX:
                visitor.close()
                self._refusals.note("a visitor of the join door: too many are there at once")
                continue
            visitor.setblocking(False)
            visit = asyncio.create_task(
                self._visit(visitor, str(address[0]).removeprefix("::ffff:")), name=f"visit of {address[0]}"
            )
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)

    async def _visit(self, visitor: socket.socket, host: str) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2 * DOOR_REQUEST_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(DOOR_DEADLINE_S):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol,
                    visitor,
                    ssl=server_context(self._credentials),
                    ssl_handshake_timeout=HANDSHAKE_DEADLINE_S,
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                await self._serve(reader, writer, host)
        except (OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError) as error:
            if not isinstance(error, asyncio.IncompleteReadError) or error.partial:  # a first look is no offence
                self._refusals.note(f"a visitor of the join door from {host} that did not speak as a node does")
        finally:
            if writer is None:
                visitor.close()
            else:
                writer.close()
                with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
                    async with asyncio.timeout(1.0):
                        await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        greeting = pb.Greeting(version=PROTOCOL_VERSION, authority=self._credentials.authority)
        await write_message(writer, greeting)
        names = shown_names(writer)
        member = None if names is None else node_of(names, self._credentials.cluster)
        try:
            request = await read_message(reader, pb.DoorRequest, DOOR_REQUEST_BYTES_MAX)
            # Files and locks: not on the event loop.
            reply = await asyncio.to_thread(self._answer, request, member)
        except NotTrusted as error:
            self._refusals.note(f"a visitor of the join door from {host}: {error}")
            reply = pb.DoorReply(refused=str(error))
        await write_message(writer, reply)

    def _answer(self, request: pb.DoorRequest, member: NodeId | None) -> pb.DoorReply:
        if request.version != PROTOCOL_VERSION:
            raise NotTrusted(
                f"this cluster speaks protocol {PROTOCOL_VERSION}, the visitor {request.version}: update the older one"
            )
        kind = request.WhichOneof("request")
        if kind == "join":
            return self._let_in(request.join)
        if member is None:
            raise NotTrusted("only a member of the cluster may ask this")
        if member in load_list(self._credentials).nodes:
            raise NotTrusted(f"node {member} was revoked")
        directory = self._credentials.directory
        if kind == "renew":
            certificate = self._authority.issue(member, requested_key(request.renew.csr))
            log.info("Node %s has a new certificate.", member)
            return pb.DoorReply(certificate=certificate)
        if kind == "leave":
            forget(directory, member)
            log.info("Node %s has left the cluster.", member)
            return pb.DoorReply()
        if kind == "list":
            return pb.DoorReply(members=[_member_to_wire(each) for each in read_members(directory)])
        raise NotTrusted("the request asks for nothing that is known here")

    def _let_in(self, join: pb.Join) -> pb.DoorReply:
        """Look at everything first: a request that is wrong must not use up an invitation."""
        directory = self._credentials.directory
        if not ID.fullmatch(join.node):
            raise NotTrusted("the joining node's id is none")
        node, key = NodeId(join.node), requested_key(join.csr)
        if node in load_list(self._credentials).nodes or any(each.node == node for each in read_members(directory)):
            raise NotTrusted(f"node {node} was let in before: run ringleader cluster leave on it, then join again")
        invitations.redeem(directory, join.secret, join.nonce, time.time())
        name = printable(join.name)
        add_member(directory, Member(node, name, time.time()))
        log.info("%s (node %s) has joined with an invitation.", name, node)
        return pb.DoorReply(
            certificate=self._authority.issue(node, key),
            cluster=self._credentials.cluster,
            name=self._credentials.name,
            revocations=bytes(load_list(self._credentials)),
            peers=list(self._peers()),
        )


def door_addresses(directory: Path) -> tuple[str, ...]:
    """Where this machine's own node keeps its join door, for an invitation. Raises NotTrusted when none runs."""
    found = read_json(directory / DOOR_FILE)
    if found is None:
        raise NotTrusted("no node runs here that could let others in: start ringleader node first")
    return tuple(map(str, found["addresses"]))


def _member_to_wire(member: Member) -> pb.Member:
    return pb.Member(
        node=member.node,
        name=member.name,
        since=member.since,
        revoked=member.revoked,
        founder=member.founder,
    )
