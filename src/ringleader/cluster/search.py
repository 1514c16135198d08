"""The fastest ring: which nodes, in which order, with which layers. Knows times and rooms, not nodes.

Exact dynamic programming over (set of nodes, link class of the last, layers held), a whole size of sets at a time.
Larger rings are not tried once none can be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ringleader.cluster.ground import NEVER, Task, Whole, alone, ended, extended, windows_of
from ringleader.cluster.sets import Sets, link_classes, shortlist

CHUNK = 256  # sets at a time, so that their tables stay in the processor's cache
WORK_MAX = 450_000_000  # numbers looked at in one search: a third of a second on an ordinary core


@dataclass(frozen=True, slots=True)
class Found:
    """The best ring: places in order. `exact` False: nodes were left aside unseen, because all are too many."""

    order: tuple[int, ...]
    time_ps: int
    exact: bool = True


def fastest(task: Task) -> Found | None:
    """The ring with the least time a token, hops included; None if nothing fits. Of equals the one of fewer nodes,
    then of earlier places. Exact for all of up to about a dozen nodes, and for more as far as they are alike."""
    places, whole = shortlist(task)
    ground = task.only(places)
    if _work(ground) <= WORK_MAX:
        found = _fastest(ground)
    else:
        found, whole = _fastest_of_some(ground), False
    if found is None:
        return None
    return Found(tuple(places[p] for p in found.order), found.time_ps, whole)


def time_in_order(task: Task, order: Sequence[int]) -> int | None:
    """The least time of a ring of exactly these nodes in this order; None if they cannot hold the model so."""
    first, *others = order
    times = alone(task, first)[:, None]
    for before, place in zip(order, others, strict=False):
        times = extended(task, place, times + task.hops[before, place], windows_of(task.lows[place]))
    best = int(times[-1, 0]) + (int(task.returns[order[-1], first]) if others else 0)
    return best if best < NEVER else None


def _work(task: Task) -> int:
    classes = link_classes(task)
    sets = Sets(task, classes)
    joins = sum(len(rows) for rows in sets.by_size[:-1]) * sets.count // 2
    kinds = max(classes, default=0) + 1
    return joins * (task.layers + 1) * (8 + kinds) * kinds


def _fastest_of_some(task: Task) -> Found | None:
    """Choose nodes as if all links were as good as the best, add those with the best links to these, and search
    among as many as can be searched."""
    flat = replace(task, hops=np.full_like(task.hops, _least(task.hops)), returns=np.zeros_like(task.returns))
    chosen = _fastest(flat)
    if chosen is None:
        return None
    links = task.hops + task.hops.T
    others = [place for place in task.places if place not in chosen.order]
    others.sort(key=lambda place: (int(links[place, list(chosen.order)].min()), place))
    keep = list(chosen.order)
    for place in others:
        if _work(task.only(sorted([*keep, place]))) > WORK_MAX:
            break
        keep.append(place)
    keep.sort()
    found = _fastest(task.only(keep))
    return found and Found(tuple(keep[place] for place in found.order), found.time_ps, False)


def _fastest(task: Task) -> Found | None:
    if not task.prefix:
        return None
    classes = link_classes(task)
    sets = Sets(task, classes)
    best: Found | None = None
    for head in range(max(classes) + 1):
        best = _Rings(task, classes, sets, head).best(best)
    return best


class _Rings:
    """All rings whose first node is of the link class `head`.

    `self._tables[size - 1][c, layers, set]` is the least time in which the nodes of the set, one of class c
    being the last, hold so many layers.
    """

    def __init__(self, task: Task, classes: Sequence[int], sets: Sets, head: int) -> None:
        self._task, self._classes, self._sets, self._head = task, classes, sets, head
        self._kinds = max(classes) + 1
        self._hops = _between_classes(task.hops, classes)
        self._returns = _between_classes(task.returns, classes)
        self._windows = [windows_of(lows) for lows in task.lows]
        self._tables: list[Whole] = [self._first()]

    def best(self, best: Found | None) -> Found | None:
        """The better of `best` and what is found here; of equals, the one of fewer nodes."""
        for size in range(1, self._sets.top + 1):
            if best is not None and (best.time_ps, len(best.order)) <= (self._bound(size), size):
                break
            if size > 1:
                self._tables.append(self._joined(size))
            ends = self._tables[-1][:, -1, :]
            if size > 1:
                ends = ends + self._returns[:, self._head, None]
            least = int(ends.min(initial=NEVER))
            if least < NEVER and (best is None or (least, size) < (best.time_ps, len(best.order))):
                row, kind = divmod(int(ends.T.argmin()), self._kinds)
                best = Found(tuple(self._order(size, row, kind)), least)
        return best

    def _bound(self, size: int) -> int:
        """No ring of `size` nodes or more is faster."""
        task = self._task
        steps = np.min([np.diff(times) for times in task.prefix], axis=0)
        hops = (size - 1) * _least(task.hops) + (_least(task.returns) if size > 1 else 0)
        return int(steps.sum()) + min(task.tail) + size * task.stage_ps + hops

    def _first(self) -> Whole:
        masks = self._sets.by_size[1]
        table = np.full((self._kinds, self._task.layers + 1, len(masks)), NEVER, np.int64)
        for place in self._task.places:
            row = self._sets.row(self._sets.bit[place])
            if row >= 0 and self._classes[place] == self._head:
                table[self._head, :, row] = alone(self._task, place)
        return table

    def _joined(self, size: int) -> Whole:
        before = self._tables[-1]
        masks = self._sets.by_size[size]
        # Nothing follows the largest rings: of these only the end counts.
        ends = 1 if size == self._sets.top else self._task.layers + 1
        table = np.full((self._kinds, ends, len(masks)), NEVER, np.int64)
        for place in self._task.places:
            rows, joined = self._sets.joining(size - 1, place)
            for first in range(0, len(rows), CHUNK):
                self._join(place, before, rows[first : first + CHUNK], table, joined[first : first + CHUNK])
        return table

    def _join(self, place: int, before: Whole, rows: Whole, table: Whole, joined: Whole) -> None:
        kind = self._classes[place]
        arrived = before[0][:, rows] + self._hops[0, kind]
        for other in range(1, self._kinds):
            np.minimum(arrived, before[other][:, rows] + self._hops[other, kind], out=arrived)
        if table.shape[1] == 1:
            reached = ended(self._task, place, arrived)[None, :]
        else:
            reached = extended(self._task, place, arrived, self._windows[place])
        table[kind][:, joined] = np.minimum(table[kind][:, joined], reached)

    def _order(self, size: int, row: int, kind: int) -> list[int]:
        """Walk back from the end: which step gave this very time?"""
        mask, stop, order = int(self._sets.by_size[size][row]), self._task.layers, list[int]()
        for level in range(size - 1, -1, -1):
            at = -1 if stop == self._task.layers else stop
            time = int(self._tables[level][kind, at, self._sets.row(mask)])
            members = [p for p in self._task.places if mask & self._sets.bit[p] and self._classes[p] == kind]
            if level == 0:
                return [members[0], *order]
            place, kind, stop = self._step(level, mask, members, stop, time)
            order.insert(0, place)
            mask ^= self._sets.bit[place]
        return order

    def _step(self, level: int, mask: int, members: list[int], stop: int, time: int) -> tuple[int, int, int]:
        task = self._task
        for place in members:
            row = self._sets.row(mask ^ self._sets.bit[place])
            if row < 0:
                continue  # that set has a twin in its place
            own = task.prefix[place][stop] + task.stage_ps + (task.tail[place] if stop == task.layers else 0)
            starts = np.arange(task.lows[place][stop], stop)
            for kind in range(self._kinds):
                before = self._tables[level - 1][kind, starts, row] + self._hops[kind, self._classes[place]]
                hits = np.flatnonzero(before + own - task.prefix[place][starts] == time)
                if len(hits):
                    return place, kind, int(starts[hits[0]])
        raise AssertionError("every time in a table was reached by some step")


def _between_classes(links: Whole, classes: Sequence[int]) -> Whole:
    kinds = max(classes) + 1
    table = np.zeros((kinds, kinds), np.int64)
    for a, b in combinations(range(len(classes)), 2):
        table[classes[a], classes[b]] = links[a, b]
        table[classes[b], classes[a]] = links[b, a]
    return table


def _least(links: Whole) -> int:
    """The least link between two different nodes."""
    apart = links[~np.eye(len(links), dtype=bool)]
    return int(apart.min(initial=NEVER)) if len(apart) else 0
