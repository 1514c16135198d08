"""What one hop of a frame costs on loopback: two processes pass a frame to and fro; half a round trip is a hop.

By mutual TLS, as between nodes, it is timed beside the same hop in the clear.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ringleader.bench.child import Child, open_child
from ringleader.bench.ratios import percentile, turns
from ringleader.bench.report import Flat, Line, at_most
from ringleader.trust.cluster import open_membership

CHILD = "ringleader.bench.hop_child"
FRAME_BYTES = 8192  # one token of a model 4096 wide in bf16
WARM_UP_TRIPS = 300
HOP_P50_US_MAX = 250.0
TLS_ROUNDS = 10  # in each, TLS and clear have their turn


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


@dataclass(frozen=True, slots=True)
class TlsHopResult:
    """The same hop in the clear and by mutual TLS; `ratios` has one number for each round."""

    clear: HopResult
    tls: HopResult
    ratios: tuple[float, ...]

    def lines(self) -> list[Line]:
        """For the table."""
        return [
            *self.clear.lines(),
            at_most("one hop by TLS, p50", self.tls.p50_us, HOP_P50_US_MAX, "{:.0f} us"),
            Line("one hop by TLS, p99", f"{self.tls.p99_us:.0f} us"),
            Line("TLS against clear, p50", f"{median(self.ratios):.2f}"),
        ]

    def flat(self) -> Flat:
        """For --json."""
        return {
            **self.clear.flat(),
            "tls_hop_p50_us": round(self.tls.p50_us, 1),
            "tls_hop_p99_us": round(self.tls.p99_us, 1),
            "tls_vs_clear": round(median(self.ratios), 3),
        }


class Pair:
    """Two processes with links to each other."""

    def __init__(self, near: Child) -> None:
        self._near = near

    async def hops_us(self, trips: int, frame_bytes: int) -> list[float]:
        """Microseconds a hop, one number for each round trip. Raises PeerFault when a child dies."""
        seconds = (await self._near.ask(trips=trips, frame_bytes=frame_bytes))["seconds"]
        return [trip / 2 * 1e6 for trip in seconds]


async def measure_hop(hops: int, frame_bytes: int = FRAME_BYTES) -> HopResult:
    """Time `hops` hops, half of them there and half of them back. Raises PeerFault when a child dies."""
    trips = max(1, hops // 2)
    async with open_pair() as pair:
        await pair.hops_us(WARM_UP_TRIPS, frame_bytes)
        return _result(await pair.hops_us(trips, frame_bytes), frame_bytes)


async def measure_tls_hop(hops: int, frame_bytes: int = FRAME_BYTES) -> TlsHopResult:
    """Time as many hops by TLS as in the clear, in turns. Raises PeerFault when a child dies."""
    trips = max(1, hops // 2 // TLS_ROUNDS)
    taken: dict[str, list[list[float]]] = {"clear": [], "tls": []}
    with TemporaryDirectory(prefix="ringleader-bench-") as made:
        credentials = open_membership(Path(made) / "cluster", "bench", time.time())
        async with open_pair() as clear, open_pair(str(credentials.directory)) as tls:
            pairs = {"clear": clear, "tls": tls}
            for pair in pairs.values():
                await pair.hops_us(WARM_UP_TRIPS, frame_bytes)
            for turn in turns(("clear", "tls"), TLS_ROUNDS):
                for each in turn:
                    taken[each].append(await pairs[each].hops_us(trips, frame_bytes))
    ratios = [median(tls) / median(clear) for tls, clear in zip(taken["tls"], taken["clear"], strict=True)]
    return TlsHopResult(
        _result(list(chain(*taken["clear"])), frame_bytes),
        _result(list(chain(*taken["tls"])), frame_bytes),
        tuple(ratios),
    )


@asynccontextmanager
async def open_pair(*arguments: str) -> AsyncIterator[Pair]:
    """Two linked processes for the length of the block, each started with these arguments."""
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(open_child(CHILD, *arguments))
        far = await stack.enter_async_context(open_child(CHILD, *arguments))
        near_address, far_address = (await near.hear())["address"], (await far.hear())["address"]
        await near.ask(link=far_address)
        await far.ask(link=near_address)
        yield Pair(near)


def _result(hops_us: list[float], frame_bytes: int) -> HopResult:
    return HopResult(2 * len(hops_us), frame_bytes, percentile(hops_us, 50), percentile(hops_us, 99))
