"""Cutting a row of layers into contiguous runs: the exact search behind a plan.

Knows sizes and rooms, not nodes; deterministic, so that the same cluster makes the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringleader.cluster.costs import Footprint

Weigh = Callable[[int, int, int], float | None]  # group, start, stop -> badness, or None: not allowed


def cut(layers: int, groups: int, weigh: Weigh) -> list[tuple[int, int]] | None:
    """Cut 0..layers into `groups` runs of the least total badness; None if no cut is allowed.

    Exact, by dynamic programming over (groups, layers): 8 groups of 126 layers weigh 60,000 runs at most.
    Of equal cuts the one with more layers in front wins, as the tail also has the output head to compute.
    Badness may be whole numbers of any size; they are summed without rounding.
    """
    best: list[dict[int, tuple[float, int]]] = [{0: (0, 0)}]
    for group in range(groups):
        row: dict[int, tuple[float, int]] = {}
        for stop in range(group + 1, layers - (groups - group - 1) + 1):
            for start in range(stop - 1, group - 1, -1):
                before = best[group].get(start)
                badness = weigh(group, start, stop) if before is not None else None
                if before is None or badness is None:
                    continue
                if stop not in row or before[0] + badness < row[stop][0]:
                    row[stop] = (before[0] + badness, start)
        best.append(row)
    if layers not in best[groups]:
        return None
    cuts: list[tuple[int, int]] = []
    stop = layers
    for group in range(groups, 0, -1):
        start = best[group][stop][1]
        cuts.append((start, stop))
        stop = start
    return cuts[::-1]


def order_that_fits(size: Footprint, rooms: Sequence[int]) -> list[int] | None:
    """An order of the rooms (bytes each) in which they can hold all layers; None if there is none.

    `reached[set]` is how many layers the rooms of a set hold in their best order: more is never worse, so
    one best order a set is enough, 2^8 sets in all instead of 8! orders.
    """
    reached: list[tuple[int, list[int]]] = [(0, [])]
    for chosen in range(1, 1 << len(rooms)):
        ways: list[tuple[int, list[int]]] = []
        for place, room in enumerate(rooms):
            if chosen >> place & 1:
                start, before = reached[chosen ^ (1 << place)]
                ways.append((size.reach(start, room), [*before, place]))
        reached.append(max(ways, key=lambda way: way[0]))
    furthest, order = reached[-1]
    return order if furthest == size.layers else None


def even(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """`parts` runs whose lengths differ by one at most, the longer ones in front."""
    cuts: list[tuple[int, int]] = []
    for place in range(parts):
        length = (stop - start) // (parts - place) + ((stop - start) % (parts - place) > 0)
        cuts.append((start, start + length))
        start += length
    return cuts
