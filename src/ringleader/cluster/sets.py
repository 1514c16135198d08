"""Sets of nodes worth a look: of nodes that could change places unnoticed (twins) one order is enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ringleader.cluster.ground import Task, Whole

NODES_MAX = 16  # sets of more are too many; see `shortlist`


class Sets:
    """All sets of nodes that are worth a look, by size, as bits; earlier places are higher bits, so that of one size
    greater numbers are sets of earlier places. Of twins, a set holds the earlier ones."""

    def __init__(self, task: Task, classes: Sequence[int]) -> None:
        self.count = len(task.prefix)
        self.bit = [1 << (self.count - 1 - place) for place in task.places]
        masks = np.arange(1, 1 << self.count, dtype=np.int64)
        for earlier, later in _twins(task, classes):
            masks = masks[((masks & self.bit[later]) == 0) | ((masks & self.bit[earlier]) != 0)]
        sizes = np.bitwise_count(masks)
        top = min(task.stages_max, self.count, task.layers)
        self.by_size = [masks[sizes == size][::-1] for size in range(top + 1)]
        self._row = np.full(1 << self.count, -1, np.int64)
        for rows in self.by_size:
            self._row[rows] = np.arange(len(rows))

    @property
    def top(self) -> int:
        return len(self.by_size) - 1

    def joining(self, size: int, place: int) -> tuple[Whole, Whole]:
        """Rows of the sets of `size` that `place` may join, and the rows of what they become."""
        rows = np.flatnonzero((self.by_size[size] & self.bit[place]) == 0)
        joined = self._row[self.by_size[size][rows] | self.bit[place]]
        return rows[joined >= 0], joined[joined >= 0]

    def row(self, mask: int) -> int:
        return int(self._row[mask])


def _alike(task: Task, a: int, b: int) -> bool:
    """Whether a and b could change places without any link being different."""
    for links in (task.hops, task.returns):
        if links[a, b] != links[b, a]:
            return False
        others = [place for place in task.places if place not in (a, b)]
        if (links[a, others] != links[b, others]).any() or (links[others, a] != links[others, b]).any():
            return False
    return True


def link_classes(task: Task) -> list[int]:
    """For each node the number of its class; nodes of one class are linked alike."""
    firsts: list[int] = []
    classes: list[int] = []
    for place in task.places:
        known = next((number for number, first in enumerate(firsts) if _alike(task, first, place)), len(firsts))
        if known == len(firsts):
            firsts.append(place)
        classes.append(known)
    return classes


def _twins(task: Task, classes: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours (earlier, later) in every group of nodes that could change places unnoticed."""
    last: dict[tuple[int, bytes, int, bytes], int] = {}
    pairs = []
    for place in task.places:
        key = (classes[place], task.prefix[place].tobytes(), task.tail[place], task.lows[place].tobytes())
        if key in last:
            pairs.append((last[key], place))
        last[key] = place
    return pairs


def shortlist(task: Task) -> tuple[list[int], bool]:
    """At most NODES_MAX places, and whether no ring is lost with the others."""
    useful = [place for place in task.places if (task.lows[place] < np.arange(task.layers + 1)).any()]
    if len(useful) > NODES_MAX:
        ground = task.only(useful)
        followers = dict(_twins(ground, link_classes(ground)))
        surplus: set[int] = set()
        for place in ground.places:  # a ring of S shards has no use for the twin number S + 1
            chain = [place]
            while chain[-1] in followers:
                chain.append(followers[chain[-1]])
            surplus.update(chain[task.stages_max :])
        useful = [useful[place] for place in ground.places if place not in surplus]
    if len(useful) <= NODES_MAX:
        return useful, True
    roomiest = sorted(useful, key=lambda p: int(task.lows[p].sum()))[: task.stages_max]  # if any S can hold it, these
    quick = sorted(useful, key=lambda p: (int(task.prefix[p][-1]), p))
    kept = list(dict.fromkeys([*roomiest, *quick]))[:NODES_MAX]
    return sorted(kept), False
