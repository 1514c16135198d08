"""Shards that nodes report and this master did not order: the rings of a master before it, or of the other side
of a cut. They are collected until a plan is whole, or has been waited for long enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ringleader.cluster.messages import Assignment, ShardReport
from ringleader.values import NodeId, PlanHash

ADOPT_GRACE_S = 2.0  # for the other nodes to follow and report: five beats
FOUND_MAX = 64  # plans; a cluster holds a few


@dataclass(slots=True)
class Found:
    """One plan, as far as it was reported. `shards` by index."""

    assignment: Assignment
    since: float
    shards: dict[int, tuple[NodeId, ShardReport]] = field(default_factory=dict)

    @property
    def plan(self) -> PlanHash:
        return self.assignment.plan.hash

    @property
    def whole(self) -> bool:
        """Every shard loads or is ready."""
        alive = [r for _, r in self.shards.values() if r.state in ("loading", "ready")]
        return len(alive) == len(self.assignment.plan.stages)

    @property
    def ready(self) -> bool:
        return self.whole and all(report.state == "ready" for _, report in self.shards.values())

    @property
    def rank(self) -> tuple[bool, bool, int, NodeId]:
        """Of two plans of one model the greater stays: the whole one, then that of the higher term."""
        return self.whole, self.ready, self.assignment.term.number, self.assignment.term.node

    @property
    def reports(self) -> dict[int, ShardReport]:
        return {index: report for index, (_, report) in self.shards.items()}


class Foundlings:
    """By plan. The last report of a node replaces what it reported before."""

    def __init__(self) -> None:
        self._found: dict[PlanHash, Found] = {}

    def note(self, node: NodeId, reports: list[ShardReport], now: float) -> None:
        """Living shards of unknown plans on `node`: all of them."""
        self.forget(node)
        for report in reports:
            plan = report.assignment.plan
            if not 0 <= report.index < len(plan.stages) or plan.stages[report.index].node != node:
                continue  # no such place in the plan: nothing can be made of it
            if plan.hash not in self._found and len(self._found) < FOUND_MAX:
                self._found[plan.hash] = Found(report.assignment, now)
            if plan.hash in self._found:
                self._found[plan.hash].shards[report.index] = (node, report)

    def forget(self, node: NodeId) -> None:
        """Its shards are not there any more, or are about to be noted anew."""
        for found in self._found.values():
            found.shards = {index: shard for index, shard in found.shards.items() if shard[0] != node}

    def take(self, plan: PlanHash) -> None:
        """It is decided upon."""
        self._found.pop(plan, None)

    def due(self, now: float) -> list[Found]:
        """What can be decided now, the greatest first: whole plans, and those that were waited for."""
        self._found = {plan: found for plan, found in self._found.items() if found.shards}
        due = [f for f in self._found.values() if f.whole or now - f.since >= ADOPT_GRACE_S]
        return sorted(due, key=lambda found: found.rank, reverse=True)

    def all(self) -> list[Found]:
        return [found for found in self._found.values() if found.shards]

    def waiting(self) -> bool:
        """Whether a plan is not whole yet."""
        return any(found.shards and not found.whole for found in self._found.values())
