from __future__ import annotations

from hypothesis import given, settings

from ringleader.cluster.ground import task
from ringleader.cluster.search import fastest
from ringleader.cluster.slowest import fewest, least_limit
from tests.unit.cluster.trying_all import Case, cases, every_ring


@given(cases())
@settings(max_examples=300, deadline=None)
def test_the_least_limit_is_the_slowest_stage_of_the_best_of_all_rings(case: Case) -> None:
    slowest = [max(stages) for _, stages, _ in every_ring(case)]
    assert least_limit(task(case.size, case.rooms, case.pace, case.stages_max)) == min(slowest, default=None)


@given(cases())
@settings(max_examples=200, deadline=None)
def test_within_its_limit_the_fastest_ring_is_that_of_all_rings_that_keep_to_it(case: Case) -> None:
    ground = task(case.size, case.rooms, case.pace, case.stages_max)
    limit = least_limit(ground)
    if limit is None:
        return
    found = fastest(ground.within(limit))
    assert found is not None
    assert found.time_ps == min(time for _, stages, time in every_ring(case) if max(stages) <= limit)


@given(cases())
@settings(max_examples=200, deadline=None)
def test_the_fewest_nodes_are_those_of_the_smallest_of_all_rings(case: Case) -> None:
    counts = [len(order) for order, _, _ in every_ring(case)]
    assert fewest(task(case.size, case.rooms, case.pace, case.stages_max)) == min(counts, default=None)
