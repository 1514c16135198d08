"""Beats, plans and reports in the short form that tests of single parts use."""

from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.plan import make_plan
from ringleader.values import ModelCosts
from tests.unit.cluster.builders import model, node

FIRST = m.Term(1, node("old").node)


def beat(
    name: str,
    *hears: str,
    follows: m.Term | None = None,
    fence: m.Term = m.NO_TERM,
    incarnation: int = 1,
    count: int = 1,
    leaving: bool = False,
) -> m.Beat:
    heard = tuple(node(each).node for each in hears)
    return m.Beat(node(name), incarnation, count, follows, max(fence, follows or fence), heard, leaving=leaving)


def assigned(
    *names: str, serial: int = 1, term: m.Term = FIRST, costs: ModelCosts | None = None, standing: bool = False
) -> m.Assignment:
    """One shard on each of the named nodes, ten layers in all."""
    wish = m.PlanWish(1000, shards=len(names))
    plan = make_plan(costs or model(), [node(name) for name in dict.fromkeys(names)], wish, serial=serial)
    return m.Assignment(plan, costs or model(), wish, standing, "", term)


def report(
    assignment: m.Assignment, index: int, state: m.ReportedState = "ready", attempt: int = 1, reason: str = ""
) -> m.ShardReport:
    ready = state == "ready"
    where = (f"host:{index}", assignment.plan.stages[index].weight_bytes, 70 + index) if ready else ("", 0, 0)
    return m.ShardReport(assignment, index, attempt, state, float(ready), *where, reason)
