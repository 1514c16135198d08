"""What one hop of a frame costs on loopback: two processes pass a frame to and fro; half a round trip is a hop."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from ringleader.bench.child import open_child
from ringleader.bench.ratios import percentile
from ringleader.bench.report import Flat, Line, at_most

CHILD = "ringleader.bench.hop_child"
FRAME_BYTES = 8192  # one token of a model 4096 wide in bf16
WARM_UP_TRIPS = 300
HOP_P50_US_MAX = 250.0


@dataclass(frozen=True, slots=True)
class HopResult:
    """Microseconds for one hop of a frame with `frame_bytes` of activation."""

    hops: int
    frame_bytes: int
    p50_us: float
    p99_us: float

    def lines(self) -> list[Line]:
        """For the table."""
        return [
            at_most("one hop, p50", self.p50_us, HOP_P50_US_MAX, "{:.0f} us"),
            Line("one hop, p99", f"{self.p99_us:.0f} us"),
        ]

    def flat(self) -> Flat:
        """For --json."""
        return {
            "hop_p50_us": round(self.p50_us, 1),
            "hop_p99_us": round(self.p99_us, 1),
            "hops": self.hops,
            "frame_bytes": self.frame_bytes,
        }


async def measure_hop(hops: int, frame_bytes: int = FRAME_BYTES) -> HopResult:
    """Time `hops` hops, half of them there and half of them back. Raises PeerFault when a child dies."""
    trips = max(1, hops // 2)
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(open_child(CHILD))
        far = await stack.enter_async_context(open_child(CHILD))
        near_address, far_address = (await near.hear())["address"], (await far.hear())["address"]
        await near.ask(link=far_address)
        await far.ask(link=near_address)
        await near.ask(trips=WARM_UP_TRIPS, frame_bytes=frame_bytes)
        seconds = (await near.ask(trips=trips, frame_bytes=frame_bytes))["seconds"]
    halves = [trip / 2 * 1e6 for trip in seconds]
    return HopResult(2 * trips, frame_bytes, percentile(halves, 50), percentile(halves, 99))
