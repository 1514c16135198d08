"""How fast this machine goes through memory and reaches the others: measured seldom, never while it computes for
somebody. What was found travels in the node's profile; what is made of it the planner decides.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ringleader.cluster.chips import bandwidth
from ringleader.cluster.member import Member
from ringleader.cluster.timing import BYTES_PER_S_MAX, BYTES_PER_S_MIN, EFFICIENCY, HOP_S_MAX, Link
from ringleader.net.relay import ASK_DEADLINE_S
from ringleader.node.telemetry import Work, memory_free_bytes
from ringleader.values import NodeId

LOOK_S = 1.0  # at most one measurement in so long
REFRESH_S = 300.0  # a cable that was plugged in meanwhile is noticed within minutes
SOON_S = 20.0  # while there are fewer than KEPT: nodes start when machines are busy
RETRY_S = 15.0  # after one that failed or was refused
KEPT = 3  # measurements of one thing, of which the best counts: the others met traffic, or a busy processor
LINKS_MAX = 64

PING = json.dumps("ping").encode()  # the question; blanks after it are payload
PONG, BUSY = b'"pong"', b'"busy"'
PINGS = 5
PAYLOAD_BYTES = 1 << 20
SLOW_S = 0.9 * ASK_DEADLINE_S  # a link whose payload needs longer is told as one that needs so long

MEMORY_BYTES = 256 << 20  # read over and over: far more than caches hold
MEMORY_FREE_MIN_BYTES = 2 << 30  # on a machine with less to spare nothing is measured
MEMORY_ROUNDS = 5
THREADS_MAX = 4  # what a CPU needs to have its memory busy

MEMORY = "memory"  # what measured a node's speed, as the profile tells it


class Asker(Protocol):
    """As `net.relay.Relays`."""

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        """Its answer, or None when none comes in time."""
        ...


@dataclass(slots=True)
class _Way:
    """What was measured of one link. `due` is when to do so again."""

    due: float = 0.0
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))


class Probes:
    """One node's. `others` are the nodes that are heard, `busy` whether a ring of this node computes or loads.

    `same` are the speeds that nodes of the same kind told of themselves: machines that are alike count as equally
    fast, the best that any of them was seen to do, or noise would send models to and fro between them.
    """

    def __init__(
        self,
        chip: str,
        relays: Asker,
        others: Callable[[], Sequence[NodeId]],
        busy: Callable[[], bool],
        same: Callable[[], Sequence[float]] = tuple,
        *,
        clock: Callable[[], float] = time.monotonic,
        read_memory: Callable[[], float | None] | None = None,
    ) -> None:
        # Only the GPU can show how fast it reads, and this process does not touch it: Apple's own figure is better.
        self._by_chip = bandwidth(chip) is not None
        self._relays = relays
        self._others = others
        self._busy = busy
        self._same = same
        self._clock = clock
        self._read_memory = read_memory or memory_bytes_per_s
        self._memory: deque[float] = deque(maxlen=KEPT)
        self._memory_due = 0.0
        self._ways: dict[NodeId, _Way] = {}
        self._measuring = False

    @property
    def bytes_per_s(self) -> float:
        """For the profile: 0 while it was not measured, and where the chip's name tells better."""
        if not self._memory:
            return 0.0
        same = [each for each in self._same() if BYTES_PER_S_MIN <= each <= BYTES_PER_S_MAX]
        return max(*self._memory, *same) if same else max(self._memory)

    @property
    def links(self) -> tuple[Link, ...]:
        """For the profile: to the nodes that are heard, as far as they were measured."""
        return tuple(
            Link(node, _rounded(min(way.latencies_s)), _rounded(max(way.rates)))
            for node in self._others()
            if (way := self._ways.get(node)) is not None and way.rates
        )

    def answer(self, question: bytes) -> bytes | None:
        """To another node's probe; None when the question is none."""
        if not question.startswith(PING):
            return None
        return BUSY if self._measuring or self._busy() else PONG

    def woke(self) -> None:
        """Networks may be others now."""
        for way in self._ways.values():
            way.due = 0.0
            way.latencies_s.clear()
            way.rates.clear()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            # Not in step with the others, who are answered only between measurements.
            await asyncio.sleep(LOOK_S * random.uniform(0.5, 1.5))
            await self.look()

    async def look(self) -> None:
        """One measurement, if one is due and nobody needs the machine."""
        if self._busy():
            return
        self._measuring = True
        try:
            if not self._by_chip and self._clock() >= self._memory_due:
                await self._measure_memory()
            elif (node := self._due()) is not None:
                await self._measure(node, self._ways.setdefault(node, _Way()))
        finally:
            self._measuring = False

    # ------------------------------------------------------------ what is measured

    async def _measure_memory(self) -> None:
        self._memory_due = self._clock() + (REFRESH_S if len(self._memory) >= KEPT - 1 else SOON_S)
        found = await asyncio.to_thread(self._read_memory)
        if found is not None and BYTES_PER_S_MIN <= found <= BYTES_PER_S_MAX:
            self._memory.append(_rounded(found * EFFICIENCY))

    def _due(self) -> NodeId | None:
        others = list(self._others())[:LINKS_MAX]
        self._ways = {node: way for node, way in self._ways.items() if node in others}
        due = {node: self._ways[node].due if node in self._ways else 0.0 for node in others}
        longest = min(due, key=lambda node: due[node], default=None)
        return longest if longest is not None and self._clock() >= due[longest] else None

    async def _measure(self, node: NodeId, way: _Way) -> None:
        way.due = self._clock() + RETRY_S
        trips: list[float] = []
        for _ in range(PINGS):
            trip_s, answer = await self._ask(node, PING)
            if answer != PONG:
                return
            trips.append(trip_s)
        loaded_s, answer = await self._ask(node, PING + b" " * PAYLOAD_BYTES)
        if answer != PONG and not (answer is None and loaded_s >= SLOW_S):
            return
        # Half of a small message's round trip is the way there; what a large one needs longer is its bytes.
        # On a busy machine the small ones may have been the slow ones: their part of the large one's time is bounded.
        bytes_s = max(loaded_s - min(trips), loaded_s / 4)
        way.latencies_s.append(min(min(trips) / 2, HOP_S_MAX))
        way.rates.append(PAYLOAD_BYTES / bytes_s)
        way.due = self._clock() + (REFRESH_S if len(way.rates) == KEPT else SOON_S)

    async def _ask(self, node: NodeId, question: bytes) -> tuple[float, bytes | None]:
        since = self._clock()
        answer = await self._relays.ask(node, question)
        return self._clock() - since, answer


class Surroundings:
    """What probes and cards ask of the cluster, as this node's machine knows it."""

    def __init__(self, member: Member, work: Work | None = None) -> None:
        self._member = member
        self._work = work or Work()

    def others(self) -> list[NodeId]:
        """The nodes that are heard."""
        return [profile.node for profile in self._member.heard()[1:]]

    def names(self) -> dict[NodeId, str]:
        """This node and those that are heard: also those that follow nobody yet, right after an election."""
        return {profile.node: profile.name for profile in self._member.heard()}

    def busy(self) -> bool:
        """Whether a shard of this node loads or computes, or a ring that it has part in has a request."""
        shot = self._member.snapshot()
        me = shot.me
        if any(ring.running and any(shard.node == me for shard in ring.shards) for ring in shot.rings):
            return True
        own = [report for node, report in self._member.reports() if node == me and report.state != "dead"]
        loads = any(report.state == "loading" for report in own)
        return self._work.look(report.pid for report in own if report.pid) or loads

    def same(self) -> list[float]:
        """What machines like this one told of their memory."""
        mine, *others = self._member.heard()
        kind = (mine.chip, mine.memory_total_bytes, MEMORY)
        return [p.bytes_per_s for p in others if (p.chip, p.memory_total_bytes, p.measured_by) == kind]


def memory_bytes_per_s() -> float | None:
    """How fast this machine's CPU reads memory, with a few threads; takes some tenths of a second.

    None where too little memory is free to try.
    """
    if memory_free_bytes() < MEMORY_FREE_MIN_BYTES:
        return None
    threads = min(THREADS_MAX, os.cpu_count() or 1)
    start = threading.Barrier(threads)
    rates = [0.0] * threads

    def read(place: int) -> None:
        array = np.ones(MEMORY_BYTES // threads // 4, np.float32)
        start.wait()
        for _ in range(MEMORY_ROUNDS):
            since = time.perf_counter()
            array.max()
            rates[place] = max(rates[place], array.nbytes / (time.perf_counter() - since))

    readers = [threading.Thread(target=read, args=(place,), daemon=True) for place in range(threads)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return sum(rates)


def _rounded(value: float) -> float:
    """Three digits: the rest is noise, and would travel in every beat."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return round(value, digits)
