"""The stream to the next shard of the ring: frames leave in order; a refusal or a break is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from ringleader.shard.activations import Activation
from ringleader.shard.batcher import Segments
from ringleader.shard.frames import frame, sampled_frame
from ringleader.shard.prefixes import Orders
from ringleader.shard.sampler import Picked
from ringleader.trust.channels import open_channel
from ringleader.trust.credentials import Credentials
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import DIAL_DEADLINE_S, RING_MESSAGE_BYTES_MAX, channel_options

OUTBOX_FRAMES_MAX = 4  # written while the next one is computed; when the network takes none, computing waits


class NextLink:
    """Frames to one next shard, for one epoch. `on_sent` is called when all frames are on their way, `on_break(reason)`
    at most once.

    With credentials, only the node `peer` is spoken to (None: any of the cluster). Raises NotTrusted if it is revoked.
    """

    def __init__(
        self,
        address: str,
        plan: bytes,
        epoch: int,
        on_break: Callable[[str], None],
        on_sent: Callable[[], None],
        credentials: Credentials | None = None,
        peer: NodeId | None = None,
    ) -> None:
        self._address = address
        self._plan = plan
        self._epoch = epoch
        self._on_break: Callable[[str], None] | None = on_break
        self._on_sent = on_sent
        self._channel = open_channel(address, channel_options(RING_MESSAGE_BYTES_MAX), credentials, peer)
        self._call = rpc.RingStub(self._channel).Pass()
        self._outbox: asyncio.Queue[pb.Frame] = asyncio.Queue(maxsize=OUTBOX_FRAMES_MAX)
        self._writer: asyncio.Task[None] | None = None
        self.step = 0  # of the last frame that was sent
        self._reader: asyncio.Task[None] | None = None
        self.frame_bytes = 0  # of the last frame that carried one sampling segment alone

    async def open(self) -> None:
        """Wait until the next shard can be reached. Raises TimeoutError, ConnectionError."""
        async with asyncio.timeout(DIAL_DEADLINE_S):
            await self._channel.channel_ready()
        self._reader = asyncio.create_task(self._read(), name=f"reports of {self._address}")
        self._writer = asyncio.create_task(self._write_all(), name=f"frames to {self._address}")

    async def _read(self) -> None:
        try:
            async for report in self._call:
                self._broke(f"{self._address} refused frame {report.step}: {report.error}")
            self._broke(f"{self._address} closed the link")
        except grpc.aio.AioRpcError as error:
            self._broke(f"{self._address} is gone: {error.details() or error.code().name}")

    def _broke(self, reason: str) -> None:
        tell, self._on_break = self._on_break, None
        if tell is not None:
            tell(reason)

    async def send(
        self,
        sent: Segments | None,
        orders: Orders,
        activation: Activation | None,
        stage_s: tuple[float, ...] = (),
        missed: bool = False,
    ) -> None:
        """Send one frame, soon; a broken link is told through `on_break`, not raised."""
        self.step += 1
        message = frame(self._plan, self._epoch, self.step, sent, orders, activation, stage_s, missed)
        if sent is not None and not sent.batch and not sent.drafts and sent.turns[0].sample and sent.turns[0].position:
            self.frame_bytes = message.ByteSize()
        await self._outbox.put(message)

    async def send_sampled(
        self, sent: Segments, picked: tuple[Picked, ...], stage_s: tuple[float, ...], missed: bool = False
    ) -> None:
        """Send what the tail picked back to the head, soon."""
        self.step += 1
        await self._outbox.put(sampled_frame(self._plan, self._epoch, self.step, sent, picked, stage_s, missed))

    async def _write_all(self) -> None:
        """Write what is sent, in order. Of a link that broke, nothing is kept: nobody may wait for room."""
        while True:
            await self._write(await self._outbox.get())
            if self._outbox.empty():
                self._on_sent()

    async def _write(self, message: pb.Frame) -> None:
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            self._broke(f"{self._address} is gone: {error}")

    async def close(self) -> None:
        """Hang up without telling."""
        self._on_break = None
        for task in (self._reader, self._writer):
            if task is not None:
                task.cancel()
        self._call.cancel()
        await self._channel.close(None)
