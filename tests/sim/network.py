"""The simulated network: words and calls that are delayed, lost, repeated and cut, also one way; and the clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from ringleader.values import NodeId


class Clock:
    """The world's time: what is due happens in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []  # the number keeps equal times in order
        self._numbers = count()

    def later(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + delay, next(self._numbers), act))

    def until(self, end: float) -> None:
        while self._due and self._due[0][0] <= end:
            self.now, _, act = heapq.heappop(self._due)
            act()
        self.now = end


class Network:
    """`cut` holds directed pairs over which nothing passes."""

    def __init__(self, clock: Clock, chance: Random) -> None:
        self._clock = clock
        self._chance = chance
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.loss = 0.0
        self.repeat = 0.0
        self.delay_max_s = 0.01
        self.slow = 0.0  # share of words that take up to a second: they arrive out of order

    def rough(self) -> None:
        """As bad as this seed has it."""
        self.loss = self._chance.choice([0.0, 0.0, 0.02, 0.1])
        self.repeat = self._chance.choice([0.0, 0.05])
        self.slow = self._chance.choice([0.0, 0.02, 0.1])
        self.delay_max_s = self._chance.choice([0.01, 0.05, 0.2])

    def calm(self) -> None:
        self.cut.clear()
        self.loss = self.repeat = self.slow = 0.0
        self.delay_max_s = 0.02

    def passes(self, here: NodeId, there: NodeId) -> bool:
        return here == there or (here, there) not in self.cut

    def both_ways(self, here: NodeId, there: NodeId) -> bool:
        return self.passes(here, there) and self.passes(there, here)

    def delay(self) -> float:
        if self.slow and self._chance.random() < self.slow:
            return self._chance.uniform(0.0, 1.0)
        return self._chance.uniform(0.0005, self.delay_max_s)

    def carry(self, here: NodeId, there: NodeId, arrive: Callable[[], None]) -> None:
        """Perhaps once, perhaps twice, perhaps never."""

        def delivered() -> None:
            if self.passes(here, there):
                arrive()

        if not self.passes(here, there) or (self.loss and self._chance.random() < self.loss):
            return
        self._clock.later(self.delay(), delivered)
        if self.repeat and self._chance.random() < self.repeat:
            self._clock.later(self.delay(), delivered)
