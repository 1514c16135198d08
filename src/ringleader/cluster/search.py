"""The search for a ring: which nodes, in which order, with which layers. Knows times and rooms, not nodes.

Exact dynamic programming over (set of nodes, link class of the last, layers held), a whole size of sets at a time.
Nodes that could change places unnoticed are tried once; larger rings are not tried once none can be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ringleader.cluster.costs import Footprint
from ringleader.cluster.timing import Pace

Whole = NDArray[np.int64]

NEVER = 2**60  # picoseconds: twelve days for a token
NODES_MAX = 16  # sets of more are too many; see `_shortlist`
CHUNK = 256  # sets at a time, so that their tables stay in the processor's cache
WORK_MAX = 700_000_000  # numbers looked at in one search: half a second on an ordinary core


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched; places 0, 1, ... are nodes, the preferred ones first.

    `lows[p][stop]` is the least start of a range up to `stop` that node p may hold (`stop`: none).
    A range costs `prefix[p][stop] - prefix[p][start] + stage_ps`, and `tail[p]` more if it is the last.
    """

    layers: int
    prefix: tuple[Whole, ...]
    tail: tuple[int, ...]
    stage_ps: int
    lows: tuple[Whole, ...]
    hops: Whole  # [p, q]: from p to q, a frame
    returns: Whole  # the same for what the last shard sends to the first
    stages_max: int

    @property
    def places(self) -> range:
        return range(len(self.prefix))

    def within(self, limit_ps: int) -> Task:
        """The same, but no stage may take longer."""
        lows = []
        for place in self.places:
            spent = self.prefix[place].copy()
            spent[-1] += self.tail[place]
            first = np.searchsorted(self.prefix[place], spent - (limit_ps - self.stage_ps))
            lows.append(np.maximum(self.lows[place], np.minimum(first, np.arange(self.layers + 1))))
        return replace(self, lows=tuple(lows))

    def only(self, places: Sequence[int]) -> Task:
        """The same with fewer nodes."""
        keep = list(places)
        pick = np.ix_(keep, keep)
        return replace(
            self,
            prefix=tuple(self.prefix[p] for p in keep),
            tail=tuple(self.tail[p] for p in keep),
            lows=tuple(self.lows[p] for p in keep),
            hops=self.hops[pick],
            returns=self.returns[pick],
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The best ring: places in order. `exact` False: nodes were left aside unseen, because all are too many."""

    order: tuple[int, ...]
    time_ps: int
    exact: bool = True


def task(size: Footprint, rooms: Sequence[int], pace: Pace, stages_max: int) -> Task:
    """The task of placing a model of this size into these rooms (bytes)."""
    stops = range(size.layers + 1)
    return Task(
        size.layers,
        tuple(np.array(times, np.int64) for times in pace.prefix),
        tuple(pace.tail),
        pace.stage_ps,
        tuple(np.array([size.first(stop, room) for stop in stops], np.int64) for room in rooms),
        np.array(pace.hops, np.int64).reshape(len(rooms), len(rooms)),
        np.array(pace.returns, np.int64).reshape(len(rooms), len(rooms)),
        stages_max,
    )


def fastest(task: Task) -> Found | None:
    """The ring with the least time a token, hops included; None if nothing fits. Of equals the one of fewer nodes,
    then of earlier places. Exact for all of up to about a dozen nodes, and for more as far as they are alike."""
    places, whole = _shortlist(task)
    ground = task.only(places)
    if _work(ground) <= WORK_MAX:
        found = _fastest(ground)
    else:
        found, whole = _fastest_of_some(ground), False
    if found is None:
        return None
    return Found(tuple(places[p] for p in found.order), found.time_ps, whole)


def least_limit(task: Task) -> int | None:
    """The least limit (picoseconds) that the slowest stage of some ring keeps to; None if nothing fits. Exact as
    `fastest` is; links do not matter to it."""
    ground = task.only(_shortlist(task)[0])
    limits = np.unique(np.concatenate([_stage_times(ground, place) for place in ground.places] or [np.array([0])]))
    sets = _Sets(ground, [0] * len(ground.prefix))
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if _fewest(ground.within(int(limits[middle])), sets) is not None:
            high = middle
        else:
            low = middle + 1
    return int(limits[low]) if low < len(limits) else None


def fewest(task: Task) -> int | None:
    """How many nodes can hold the model at least; None if all together cannot."""
    ground = task.only(_shortlist(task)[0])
    return _fewest(ground, _Sets(ground, [0] * len(ground.prefix)))


def time_in_order(task: Task, order: Sequence[int]) -> int | None:
    """The least time of a ring of exactly these nodes in this order; None if they cannot hold the model so."""
    first, *others = order
    times = _alone(task, first)[:, None]
    for before, place in zip(order, others, strict=False):
        times = _extended(task, place, times + task.hops[before, place], _windows(task.lows[place]))
    best = int(times[-1, 0]) + (int(task.returns[order[-1], first]) if others else 0)
    return best if best < NEVER else None


# ---------------------------------------------------------------- sets of nodes


class _Sets:
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


def _link_classes(task: Task) -> list[int]:
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


def _shortlist(task: Task) -> tuple[list[int], bool]:
    """At most NODES_MAX places, and whether no ring is lost with the others."""
    useful = [place for place in task.places if (task.lows[place] < np.arange(task.layers + 1)).any()]
    if len(useful) > NODES_MAX:
        ground = task.only(useful)
        followers = dict(_twins(ground, _link_classes(ground)))
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


# ---------------------------------------------------------------- the least sum


def _work(task: Task) -> int:
    classes = _link_classes(task)
    sets = _Sets(task, classes)
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
    classes = _link_classes(task)
    sets = _Sets(task, classes)
    best: Found | None = None
    for head in range(max(classes) + 1):
        best = _Rings(task, classes, sets, head).best(best)
    return best


class _Rings:
    """All rings whose first node is of the link class `head`.

    `self._tables[size - 1][c, layers, set]` is the least time in which the nodes of the set, one of class c
    being the last, hold so many layers.
    """

    def __init__(self, task: Task, classes: Sequence[int], sets: _Sets, head: int) -> None:
        self._task, self._classes, self._sets, self._head = task, classes, sets, head
        self._kinds = max(classes) + 1
        self._hops = _between_classes(task.hops, classes)
        self._returns = _between_classes(task.returns, classes)
        self._windows = [_windows(lows) for lows in task.lows]
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
                table[self._head, :, row] = _alone(self._task, place)
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
            reached = _ended(self._task, place, arrived)[None, :]
        else:
            reached = _extended(self._task, place, arrived, self._windows[place])
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


# ---------------------------------------------------------------- one node more


def _alone(task: Task, place: int) -> Whole:
    """Times of a ring that begins with this node, for each number of layers that it may hold."""
    times = task.prefix[place] + task.stage_ps
    times[-1] += task.tail[place]
    return np.where((task.lows[place] == 0) & (np.arange(task.layers + 1) > 0), times, NEVER)


Windows = list[tuple[Whole, Whole, Whole]]  # for runs of 1, 2, 4, ... starts: stops, their first and last such run


def _windows(lows: Whole) -> Windows:
    stops = np.arange(len(lows))
    width = stops - lows
    windows: Windows = []
    span = 1
    while span <= width.max(initial=0):
        mine = np.flatnonzero((width >= span) & (width < 2 * span))
        windows.append((mine, lows[mine], mine - span))
        span *= 2
    return windows


def _extended(task: Task, place: int, before: Whole, windows: Windows) -> Whole:
    """`before[start, ring]` is when this node may begin; gives when it is done with `[stop, ring]`.

    The least over all starts of a window is the lesser of two overlapping runs whose length is a power of two.
    """
    own = task.prefix[place]
    run, span = before - own[:, None], 1
    done = np.full_like(before, NEVER)
    for stops, firsts, lasts in windows:
        done[stops] = np.minimum(run[firsts], run[lasts])
        run, span = np.minimum(run[:-span], run[span:]), 2 * span
    done += (own + task.stage_ps)[:, None]
    done[-1] += task.tail[place]
    return np.minimum(done, NEVER, out=done)


def _ended(task: Task, place: int, before: Whole) -> Whole:
    """The last row of `_extended` alone."""
    low, own = int(task.lows[place][-1]), task.prefix[place]
    since: Whole = (before[low:-1] - own[low:-1, None]).min(axis=0, initial=NEVER)
    return np.minimum(since + (own[-1] + task.stage_ps + task.tail[place]), NEVER)


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


# ---------------------------------------------------------------- the least maximum


def _stage_times(task: Task, place: int) -> Whole:
    """Every time that one stage on this node can take."""
    times = task.prefix[place]
    inner = np.subtract.outer(times[:-1], times[:-1])
    ends = times[-1] - times[:-1] + task.tail[place]
    return np.concatenate([inner[np.tril_indices(len(inner), -1)], ends]) + task.stage_ps


def _fewest(task: Task, sets: _Sets) -> int | None:
    """How few nodes can hold all layers: sets of nodes reach as far as their best order does."""
    reach = [_reach(lows) for lows in task.lows]
    reached: Whole = np.zeros(1, np.int64)
    for size in range(1, sets.top + 1):
        further = np.zeros(len(sets.by_size[size]), np.int64)
        for place in task.places:
            if size == 1:
                row = sets.row(sets.bit[place])
                if row >= 0:
                    further[row] = reach[place][0]
                continue
            rows, joined = sets.joining(size - 1, place)
            further[joined] = np.maximum(further[joined], reach[place][reached[rows]])
        if (further == task.layers).any():
            return size
        reached = further
    return None


def _reach(lows: Whole) -> Whole:
    """For each start the furthest stop of a range that is allowed; the start itself if none is."""
    stops = np.arange(len(lows))
    return np.maximum(np.searchsorted(lows, stops, side="right") - 1, stops)
