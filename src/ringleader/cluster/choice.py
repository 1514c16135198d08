"""The planner's own choice of nodes, order and layers, and the reason in words.

Fit first; then the least time a token (`latency`) or the least time of the slowest stage (`throughput`; of equals
again the least time a token). Of equal rings the one of fewer nodes, then of roomier ones; then the layers are cut
in proportion to the rooms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringleader.cluster.costs import Footprint, readable
from ringleader.cluster.cuts import cut
from ringleader.cluster.ground import Task, task
from ringleader.cluster.rooms import PlanNode, does_not_fit, room
from ringleader.cluster.search import Found, fastest, time_in_order
from ringleader.cluster.slowest import fewest, least_limit
from ringleader.cluster.timing import PS, Pace
from ringleader.values import ModelCosts

Placed = list[tuple[PlanNode, int, int]]  # node, start, stop; in ring order

BALANCE_MAX = 10**16  # above any sum of bytes: one picosecond weighs more than the best balance
ASIDE_SHOWN = 6  # nodes that are told why they were left out; the others are counted


@dataclass(frozen=True, slots=True)
class _Grounds:
    """What is known when the choice is made. Places are those of `nodes`: all that have room, the roomiest first."""

    costs: ModelCosts
    size: Footprint
    context: int
    nodes: list[PlanNode]
    pace: Pace
    task: Task
    throughput: bool


def choose(
    costs: ModelCosts,
    size: Footprint,
    context: int,
    nodes: Sequence[PlanNode],
    *,
    stages_max: int,
    throughput: bool = False,
) -> tuple[Placed, str]:
    """The best ring, and why it is that one. `nodes` are the roomiest first.

    Raises:
        ModelDoesNotFit: no ring of at most `stages_max` nodes can hold the model.
    """
    usable = [node for node in nodes if room(node) > 0]
    pace = Pace(costs, usable)
    full = task(size, [room(node) for node in usable], pace, stages_max)
    limit = least_limit(full) if throughput else None
    # The slowest stage's limit narrows what each node may hold; within it the search is the same.
    found = fastest(full if limit is None else full.within(limit))
    if found is None:
        raise does_not_fit(costs, size, context, nodes)
    grounds = _Grounds(costs, size, context, usable, pace, full if limit is None else full.within(limit), throughput)
    order = _preferred_order(grounds.task, found)
    placed = [(usable[place], *run) for place, run in zip(order, _balanced(grounds, order, found.time_ps), strict=True)]
    least = fewest(full) or len(order)
    return placed, f"{_chosen(grounds, placed, least)}{_aside(grounds, order, found, nodes)}"


def holds(costs: ModelCosts, tokens: int, nodes: Sequence[PlanNode], stages_max: int) -> bool:
    """Whether some ring has room for this model with caches of `tokens` tokens."""
    usable = [node for node in nodes if room(node) > 0]
    size = Footprint(costs, tokens)
    return fewest(task(size, [room(node) for node in usable], Pace(costs, usable), stages_max)) is not None


def _preferred_order(task: Task, found: Found) -> tuple[int, ...]:
    """The roomiest first, where that costs no time."""
    usual = tuple(sorted(found.order))
    return usual if time_in_order(task, usual) == found.time_ps else found.order


def _balanced(grounds: _Grounds, order: Sequence[int], time_ps: int) -> list[tuple[int, int]]:
    """The fastest cuts in this order; of equal ones that in proportion to the rooms.

    The sum of bytes^2 / room is least where bytes are in proportion to room.
    """
    size, pace, lows = grounds.size, grounds.pace, grounds.task.lows
    rooms = [room(grounds.nodes[place]) for place in order]

    def weigh(group: int, start: int, stop: int) -> float | None:
        if start < lows[order[group]][stop]:
            return None
        load = size.total(start, stop)
        return pace.stage(order[group], start, stop) * BALANCE_MAX + load * load // rooms[group]

    cuts = cut(size.layers, len(order), weigh)
    assert cuts is not None, "the search found cuts for this order"
    return cuts


# ---------------------------------------------------------------- in words


def _chosen(grounds: _Grounds, placed: Placed, least: int) -> str:
    needed = f"{readable(grounds.size.total(0, grounds.size.layers))} with {grounds.context} tokens of context"
    names = ", ".join(node.name for node, _, _ in placed)
    if len(placed) == 1:
        return f"{names} alone holds it: it needs {needed}, {readable(room(placed[0][0]))} are free there"
    if len(placed) > least:
        gain = "serve more tokens a second" if grounds.throughput else "are faster"
        return f"{needed} would fit {least} node{'s' * (least > 1)}, but {len(placed)} {gain}; split over {names}"
    speeds = {grounds.task.prefix[grounds.nodes.index(node)].tobytes() for node, _, _ in placed}
    split = "the faster nodes hold as much as they can" if len(speeds) > 1 else "in proportion to free memory"
    if grounds.throughput:
        split = "so that the slowest shard takes as little time as it can"
    return f"{needed} need {len(placed)} nodes; split over {names}: {split}"


def _aside(grounds: _Grounds, order: Sequence[int], found: Found, nodes: Sequence[PlanNode]) -> str:
    """Who was left out, and why."""
    full = [node.name for node in nodes if room(node) <= 0]
    aside = [place for place in range(len(grounds.nodes)) if place not in order]
    names: dict[str, list[str]] = {}  # by reason
    for place in aside[:ASIDE_SHOWN]:
        names.setdefault(_why_not(grounds, order, found, place), []).append(grounds.nodes[place].name)
    if full:
        names["no memory free for it"] = full[:ASIDE_SHOWN]
    reasons = [f"{', '.join(those)} ({why})" for why, those in names.items()]
    unseen = len(aside[ASIDE_SHOWN:]) + len(full[ASIDE_SHOWN:])
    reasons += [f"and {unseen} more"] if unseen else []
    told = f". Left out: {'; '.join(reasons)}" if reasons else ""
    return told if found.exact else f"{told}. The best of a search that could not try every ring of so many nodes"


def _why_not(grounds: _Grounds, order: Sequence[int], found: Found, place: int) -> str:
    if len(order) >= grounds.task.stages_max:
        return f"a ring has at most {grounds.task.stages_max} shards, and these serve best"
    with_it = _with(grounds.task, order, place)
    if with_it is not None and with_it > found.time_ps:
        return f"would slow a stream from {PS / found.time_ps:.1f} to {PS / with_it:.1f} tokens/s"
    if with_it is None and not grounds.throughput:
        return "no layer fits there beside the others"
    return "makes nothing faster"


def _with(task: Task, order: Sequence[int], place: int) -> int | None:
    """The least time of the ring with one node more, at whatever place."""
    tried = (time_in_order(task, [*order[:at], place, *order[at:]]) for at in range(len(order) + 1))
    return min((time for time in tried if time is not None), default=None)
