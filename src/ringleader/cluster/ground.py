"""What a search for a ring is given: times and rooms of nodes that are only numbers, and what follows for one node.

Times are whole picoseconds; a table holds them for every number of layers from none to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringleader.cluster.costs import Footprint
from ringleader.cluster.timing import Pace

Whole = NDArray[np.int64]

NEVER = 2**60  # picoseconds: twelve days for a token


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


# ---------------------------------------------------------------- one node more


def alone(task: Task, place: int) -> Whole:
    """Times of a ring that begins with this node, for each number of layers that it may hold."""
    times = task.prefix[place] + task.stage_ps
    times[-1] += task.tail[place]
    return np.where((task.lows[place] == 0) & (np.arange(task.layers + 1) > 0), times, NEVER)


Windows = list[tuple[Whole, Whole, Whole]]  # for runs of 1, 2, 4, ... starts: stops, their first and last such run


def windows_of(lows: Whole) -> Windows:
    stops = np.arange(len(lows))
    width = stops - lows
    windows: Windows = []
    span = 1
    while span <= width.max(initial=0):
        mine = np.flatnonzero((width >= span) & (width < 2 * span))
        windows.append((mine, lows[mine], mine - span))
        span *= 2
    return windows


def extended(task: Task, place: int, before: Whole, windows: Windows) -> Whole:
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


def ended(task: Task, place: int, before: Whole) -> Whole:
    """The last row of `extended` alone."""
    low, own = int(task.lows[place][-1]), task.prefix[place]
    since: Whole = (before[low:-1] - own[low:-1, None]).min(axis=0, initial=NEVER)
    done: Whole = np.minimum(since + (own[-1] + task.stage_ps + task.tail[place]), NEVER)
    return done
