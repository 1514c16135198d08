"""What bounds a ring with many streams: its slowest stage; and how few nodes can hold a model at all.

One number a set of nodes is enough, how many layers it reaches in its best order: more is never worse.
"""

from __future__ import annotations

import numpy as np

from ringleader.cluster.ground import Task, Whole
from ringleader.cluster.sets import Sets, shortlist


def least_limit(task: Task) -> int | None:
    """The least limit (picoseconds) that the slowest stage of some ring keeps to; None if nothing fits. Exact as
    `fastest` is; links do not matter to it."""
    ground = task.only(shortlist(task)[0])
    limits = np.unique(np.concatenate([_stage_times(ground, place) for place in ground.places] or [np.array([0])]))
    sets = Sets(ground, [0] * len(ground.prefix))
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
    ground = task.only(shortlist(task)[0])
    return _fewest(ground, Sets(ground, [0] * len(ground.prefix)))


def _stage_times(task: Task, place: int) -> Whole:
    """Every time that one stage on this node can take."""
    times = task.prefix[place]
    inner = np.subtract.outer(times[:-1], times[:-1])
    ends = times[-1] - times[:-1] + task.tail[place]
    return np.concatenate([inner[np.tril_indices(len(inner), -1)], ends]) + task.stage_ps


def _fewest(task: Task, sets: Sets) -> int | None:
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
