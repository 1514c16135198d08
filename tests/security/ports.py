"""Ports that tests knock at: a guarded gRPC service that notes whom it heard, and a founder's join door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from ringleader.net.door import JoinDoor
from ringleader.trust.channels import GuardedServer, open_channel
from ringleader.trust.credentials import Credentials
from ringleader.trust.guard import caller
from ringleader.trust.invitations import Invitation, invite
from ringleader.trust.refusals import Refusals
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION, RING_MESSAGE_BYTES_MAX, channel_options

DEADLINE_S = 10.0
OPTIONS = channel_options(RING_MESSAGE_BYTES_MAX)


@dataclass
class Listening(rpc.RingServicer):
    """A service of a unary and a streaming call. `heard` are the callers whose words had an effect, in order."""

    credentials: Credentials | None
    heard: list[NodeId | None] = field(default_factory=list)
    frames: int = 0
    said: list[str] = field(default_factory=list)  # what the guard has logged
    address: str = ""

    async def Hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloReply:
        self.heard.append(caller(context, self.credentials.cluster) if self.credentials else None)
        return pb.HelloReply(version=PROTOCOL_VERSION)

    async def Pass(self, frames: AsyncIterator[pb.Frame], context: Any) -> AsyncIterator[pb.PassReport]:
        async for frame in frames:
            self.frames += 1
            yield pb.PassReport(step=frame.step)


@asynccontextmanager
async def listening(credentials: Credentials | None) -> AsyncIterator[Listening]:
    """The service on a free loopback port."""
    service = Listening(credentials)
    guarded = GuardedServer(OPTIONS, credentials, Refusals(say=service.said.append))
    rpc.add_RingServicer_to_server(service, guarded.server)
    service.address = f"127.0.0.1:{guarded.listen('127.0.0.1:0')}"
    await guarded.server.start()
    try:
        yield service
    finally:
        await guarded.server.stop(None)


async def greet(address: str, credentials: Credentials | None, peer: NodeId | None = None) -> str:
    """Say hello: "" when it was heard, otherwise the status and why not."""
    async with open_channel(address, OPTIONS, credentials, peer) as channel:
        return await greet_by(channel)


async def greet_by(channel: grpc.aio.Channel) -> str:
    try:
        await rpc.RingStub(channel).Hello(pb.HelloRequest(version=PROTOCOL_VERSION), timeout=DEADLINE_S)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return ""


@dataclass
class Door:
    """A founder's open join door. `said` is what it has logged of refusals."""

    founder: Credentials
    port: int
    said: list[str]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def invite(self, uses: int = 1, ttl_s: float = 60.0, now: float | None = None) -> Invitation:
        import time

        return invite(self.founder.directory, (self.address,), ttl_s, uses, time.time() if now is None else now)


@asynccontextmanager
async def open_door(founder: Credentials) -> AsyncIterator[Door]:
    said: list[str] = []
    door = JoinDoor(founder, lambda: ["127.0.0.1:52416"], Refusals(say=said.append))
    port = await door.start("127.0.0.1", 0, ["127.0.0.1"])
    try:
        yield Door(founder, port, said)
    finally:
        await door.close()


async def knock(port: int, data: bytes, *, stay_s: float = 0.0) -> bytes:
    """Send bytes to a port, perhaps stay, and take what comes until the other side hangs up or a moment has passed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        writer.write(data)
        async with asyncio.timeout(0.3 + stay_s):
            await writer.drain()
            while chunk := await reader.read(65_536):
                got += chunk
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()
    return got
