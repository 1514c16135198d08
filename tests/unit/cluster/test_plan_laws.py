"""What must hold of every plan, on described fleets and on random small ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ringleader.cluster.choice import holds
from ringleader.cluster.messages import NodeProfile, PlanWish
from ringleader.cluster.plan import STAGES_MAX, Plan, context_that_fits, make_plan
from ringleader.cluster.rooms import NODE_RESERVE_BYTES, room
from ringleader.errors import ModelDoesNotFit
from ringleader.models.described import described_costs, described_names
from ringleader.values import ModelCosts
from tests.unit.cluster.fleet_files import FLEETS, load
from tests.unit.cluster.trying_all import GB, Case, cases

Objective = Literal["latency", "throughput"]
OBJECTIVES: list[Objective] = ["latency", "throughput"]


def described(name: str) -> ModelCosts:
    costs = described_costs(name)
    assert costs is not None
    return costs


def check(plan: Plan, costs: ModelCosts, nodes: list[NodeProfile]) -> None:
    assert plan.stages[0].layers.start == 0
    assert [a.layers.stop for a in plan.stages[:-1]] == [b.layers.start for b in plan.stages[1:]]
    assert plan.stages[-1].layers.stop == costs.layers
    assert len({stage.node for stage in plan.stages}) == len(plan.stages) <= STAGES_MAX
    rooms = {node.node: room(node) for node in nodes}
    assert all(stage.memory_bytes <= rooms[stage.node] for stage in plan.stages)
    assert sum(stage.weight_bytes for stage in plan.stages) == costs.weight_bytes
    predicted = plan.predicted
    assert predicted is not None
    assert predicted.token_s == pytest.approx(sum(predicted.stage_s) + sum(predicted.hop_s))
    left_out = [node.name for node in nodes if node.node not in {stage.node for stage in plan.stages}]
    assert all(name in plan.why for name in left_out) or re.search(r"; and \d+ more", plan.why), "each is told why"


def score(plan: Plan, objective: Objective) -> float:
    """What the objective wants to be least."""
    assert plan.predicted is not None
    return plan.predicted.token_s if objective == "latency" else plan.predicted.slowest_s


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", described_names())
@pytest.mark.parametrize("fleet", FLEETS)
def test_a_plan_for_a_described_fleet_covers_every_layer_once_and_fits_or_says_what_is_missing(
    fleet: str, name: str, objective: Objective
) -> None:
    nodes, costs = load(fleet), described(name)
    try:
        plan = make_plan(costs, nodes, PlanWish(8192, 2, objective=objective))
    except ModelDoesNotFit:
        assert not holds(costs, 2 * 8192, nodes, STAGES_MAX)
    else:
        check(plan, costs, nodes)


def profiles(case: Case) -> list[NodeProfile]:
    return [
        replace(node, memory_free_bytes=size + NODE_RESERVE_BYTES)
        for node, size in zip(case.nodes, case.rooms, strict=True)
    ]


def planned(case: Case, nodes: list[NodeProfile], objective: Objective) -> Plan | None:
    try:
        return make_plan(case.costs, nodes, PlanWish(1, objective=objective))
    except ModelDoesNotFit:
        return None


@given(cases(nodes_max=5, layers_max=6), st.sampled_from(OBJECTIVES))
@settings(max_examples=100, deadline=None)
def test_a_plan_of_any_fleet_covers_every_layer_once_and_fits(case: Case, objective: Objective) -> None:
    nodes = profiles(case)
    plan = planned(case, nodes, objective)
    assume(plan is not None)
    assert plan is not None
    check(plan, case.costs, nodes)


@given(cases(nodes_max=5, layers_max=6), st.sampled_from(OBJECTIVES), st.integers(0, 4), st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_more_memory_never_makes_a_plan_worse(case: Case, objective: Objective, which: int, more: int) -> None:
    nodes = profiles(case)
    before = planned(case, nodes, objective)
    assume(before is not None)
    which %= len(nodes)
    nodes[which] = replace(nodes[which], memory_free_bytes=nodes[which].memory_free_bytes + more * GB)
    after = planned(case, nodes, objective)
    assert before is not None
    assert after is not None
    assert score(after, objective) <= score(before, objective)


@given(cases(nodes_max=5, layers_max=6), st.sampled_from(OBJECTIVES))
@settings(max_examples=100, deadline=None)
def test_one_more_node_never_makes_a_plan_worse(case: Case, objective: Objective) -> None:
    nodes = profiles(case)
    before = planned(case, nodes[1:], objective)
    assume(before is not None)
    after = planned(case, nodes, objective)
    assert before is not None
    assert after is not None
    assert score(after, objective) <= score(before, objective)


@given(cases(nodes_max=4, layers_max=6))
@settings(max_examples=100, deadline=None)
def test_a_node_without_which_the_others_are_as_fast_is_left_out(case: Case) -> None:
    nodes = profiles(case)
    plan = planned(case, nodes, "latency")
    if plan is None or len(plan.stages) < 2:
        return  # common, and nothing to see
    ring = [stage.node for stage in plan.stages]
    for left_out in ring:
        without = planned(case, [node for node in nodes if node.node in ring and node.node != left_out], "latency")
        assert without is None or score(without, "latency") > score(plan, "latency")


@given(cases(nodes_max=4, layers_max=4), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_the_context_that_fits_fits_and_one_token_more_does_not(case: Case, streams: int) -> None:
    nodes = profiles(case)
    costs = replace(case.costs, kv_bytes_per_token=tuple(size // 10 for size in case.costs.kv_bytes_per_token))
    most = context_that_fits(costs, nodes, PlanWish(1, streams))
    if most:
        make_plan(costs, nodes, PlanWish(most, streams))
    if most < costs.context_max:
        with pytest.raises(ModelDoesNotFit):
            make_plan(costs, nodes, PlanWish(most + 1, streams))
