"""Child process: one end of a hop. The far end echoes every frame; the near end counts the time of round trips.

Frames go through the ring's own gRPC service, link, encoding and decoding, and under uvloop, as in a shard; only
the compute is missing. Started as `python -m ringleader.bench.hop_child [STATE_DIRECTORY]`, with one by mutual TLS;
ends when standard input closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ringleader.shard.activations import Activation
from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.frames import activation_of, segments_of
from ringleader.shard.link import NextLink
from ringleader.shard.prefixes import NO_ORDERS
from ringleader.shard.process import open_server
from ringleader.trust.credentials import load
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc

PLAN = bytes(16)
ELEMENT_BYTES = 4
TRIP_DEADLINE_S = 30.0


class EchoService(rpc.RingServicer):
    """Takes frames as a shard does; what to do with one is `on_frame`'s affair."""

    def __init__(self) -> None:
        self.link: NextLink | None = None
        self.arrived: asyncio.Event | None = None  # set: this is the near end, which does not echo

    async def Pass(self, frames: AsyncIterator[pb.Frame], context: Any) -> AsyncIterator[pb.PassReport]:
        """Decode each frame whole; send it back, or note that it came back."""
        async for frame in frames:
            sent, activation = segments_of(frame), activation_of(frame)
            if self.arrived is not None:
                self.arrived.set()
            elif self.link is not None:
                await self.link.send(sent, NO_ORDERS, activation)
        yield pb.PassReport()

    async def trips(self, count: int, frame_bytes: int) -> list[float]:
        """Seconds of `count` round trips, one after the other."""
        assert self.link is not None
        self.arrived = asyncio.Event()
        activation = Activation(bytes(frame_bytes), "f32", (1, 1, frame_bytes // ELEMENT_BYTES))
        seconds = []
        for position in range(1, count + 1):
            self.arrived.clear()
            started = time.perf_counter()
            await self.link.send(Segments((Turn(1, position, (position,), True, None),)), NO_ORDERS, activation)
            async with asyncio.timeout(TRIP_DEADLINE_S):
                await self.arrived.wait()
            seconds.append(time.perf_counter() - started)
        return seconds


async def serve() -> None:
    """Say the address, then carry out orders: {"link": address}, {"trips": n, "frame_bytes": n}."""
    service = EchoService()
    credentials = load(Path(sys.argv[1])) if len(sys.argv) > 1 else None
    server, address = await open_server(service, "127.0.0.1:0", credentials)
    _say(address=address)
    async for order in _orders():
        if "link" in order:
            service.link = NextLink(order["link"], PLAN, 1, lambda reason: None, lambda: None, credentials)
            await service.link.open()
            _say(linked=True)
        else:
            _say(seconds=await service.trips(order["trips"], order["frame_bytes"]))
    if service.link is not None:
        await service.link.close()
    await server.stop(None)


async def _orders() -> AsyncIterator[dict[str, Any]]:
    """Lines of standard input, until it closes; read in a thread, which never keeps the process alive."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the input did
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, name="orders", daemon=True).start()
    while line := await lines.get():
        yield json.loads(line)


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point."""
    import uvloop

    uvloop.run(serve())


if __name__ == "__main__":
    main()
