from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from ringleader.cluster import search
from ringleader.cluster.costs import Footprint
from ringleader.cluster.ground import task
from ringleader.cluster.messages import NodeProfile
from ringleader.cluster.search import fastest, time_in_order
from ringleader.cluster.sets import Sets, link_classes
from ringleader.cluster.timing import Link, Pace
from ringleader.values import NodeId
from tests.unit.cluster.builders import GB, MB, model
from tests.unit.cluster.trying_all import Case, cases, every_ring


@given(cases())
@settings(max_examples=300, deadline=None)
def test_no_ring_is_faster_than_the_one_that_is_found(case: Case) -> None:
    ways = [(time, len(order)) for order, _, time in every_ring(case)]
    found = fastest(task(case.size, case.rooms, case.pace, case.stages_max))
    if found is None:
        assert not ways
    else:
        assert (found.time_ps, len(found.order)) == min(ways), "of equal ones the one of fewer nodes"
        assert found.exact


@given(cases())
@settings(max_examples=150, deadline=None)
def test_the_time_of_an_order_is_that_of_its_best_cut(case: Case) -> None:
    ground = task(case.size, case.rooms, case.pace, case.stages_max)
    best: dict[tuple[int, ...], int] = {}
    for order, _, time in every_ring(case):
        best[order] = min(time, best.get(order, time))
    for order, time in best.items():
        assert time_in_order(ground, order) == time
    if len(case.rooms) > 1 and case.stages_max > 1 and (1, 0) not in best:
        assert time_in_order(ground, (1, 0)) is None


@given(cases(nodes_max=5))
@settings(max_examples=100, deadline=None)
def test_a_bounded_search_finds_a_ring_whenever_there_is_one_and_never_claims_to_be_exact(case: Case) -> None:
    ground = task(case.size, case.rooms, case.pace, case.stages_max)
    exact = fastest(ground)
    some = search._fastest_of_some(ground)
    assert (some is None) == (exact is None)
    if some is not None and exact is not None:
        assert some.time_ps >= exact.time_ps
        assert not some.exact
        assert time_in_order(ground, some.order) == some.time_ps


def distinct(count: int, links: bool) -> list[NodeProfile]:
    """Nodes of which no two have the same speed, room or link."""
    return [
        NodeProfile(
            node=NodeId(str(a)),
            name=str(a),
            host="",
            chip="",
            memory_total_bytes=0,
            memory_free_bytes=22 * GB + 1021 * a * MB,
            bytes_per_s=(100 + 37 * (a * 5 % 16)) * 1e9,
            links=tuple(
                Link(NodeId(str(b)), (100 + (17 * a + 29 * b) % 101) * 1e-6, 1e9) for b in range(count) if links
            ),
        )
        for a in range(count)
    ]


def search_of(nodes: list[NodeProfile]) -> search.Found | None:
    costs = model(layers=128, layer=GB, ends=(GB, GB))
    rooms = [node.memory_free_bytes for node in nodes]
    return fastest(task(Footprint(costs, 1), rooms, Pace(costs, nodes), 8))


def test_sixteen_different_nodes_with_equal_links_are_searched_exactly() -> None:
    found = search_of(distinct(16, links=False))
    assert found is not None
    assert found.exact
    assert len(found.order) >= 4


def test_sixteen_nodes_with_all_links_different_are_too_many_and_that_is_said() -> None:
    found = search_of(distinct(16, links=True))
    assert found is not None
    assert not found.exact


def test_eleven_nodes_with_all_links_different_are_not_too_many() -> None:
    found = search_of(distinct(11, links=True))
    assert found is not None
    assert found.exact


def test_the_work_of_any_search_has_a_limit() -> None:
    for count, links in ((16, False), (16, True), (11, True), (5, True)):
        nodes = distinct(count, links)
        costs = model(layers=128)
        ground = task(Footprint(costs, 1), [GB] * count, Pace(costs, nodes), 8)
        assert (search._work(ground) <= search.WORK_MAX) == (not (count == 16 and links))


def test_twins_are_tried_in_one_order_only() -> None:
    nodes = [replace(node, bytes_per_s=2e11, links=()) for node in distinct(16, links=False)]
    costs = model(layers=128)
    ground = task(Footprint(costs, 1), [20 * GB] * 16, Pace(costs, nodes), 8)
    sets = Sets(ground, link_classes(ground))
    assert [len(masks) for masks in sets.by_size] == [0, 1, 1, 1, 1, 1, 1, 1, 1]


def test_forty_nodes_are_no_problem_when_they_are_alike() -> None:
    nodes = [replace(node, bytes_per_s=2e11, memory_free_bytes=30 * GB) for node in distinct(40, links=False)]
    found = search_of(nodes)
    assert found is not None
    assert found.exact
    assert found.order == (0, 1, 2, 3, 4)


def test_forty_different_nodes_are_searched_in_part_but_a_ring_that_only_the_roomiest_make_is_found() -> None:
    nodes = distinct(40, links=False)
    nodes = [
        replace(n, memory_free_bytes=17 * GB if a >= 32 else GB, bytes_per_s=(900 - a) * 1e9)
        for a, n in enumerate(nodes)
    ]
    found = search_of(nodes)
    assert found is not None
    assert not found.exact
    assert set(found.order) == set(range(32, 40))


@pytest.mark.parametrize("rooms", [[], [0], [1, 1]])
def test_what_fits_nowhere_is_not_found(rooms: list[int]) -> None:
    nodes = distinct(len(rooms), links=False)
    costs = model(layers=3, layer=GB)
    assert fastest(task(Footprint(costs, 1), rooms, Pace(costs, nodes), 8)) is None
