from __future__ import annotations

from dataclasses import replace

import pytest

from ringleader.cluster.messages import NodeProfile, PlanWish
from ringleader.cluster.plan import Plan, make_plan, predicted_now
from ringleader.cluster.timing import Link
from ringleader.errors import BadRequest, ModelDoesNotFit
from ringleader.models.described import described_costs
from ringleader.values import NodeId
from tests.unit.cluster.builders import GB, WISH, model, node
from tests.unit.cluster.fleet_files import load


def of_chip(name: str, chip: str, room: int) -> NodeProfile:
    return replace(node(name, room), chip=chip)


def shape(plan: Plan) -> list[tuple[str, int, int]]:
    return [(stage.node.removesuffix("-id"), stage.layers.start, stage.layers.stop) for stage in plan.stages]


def test_the_faster_node_holds_as_much_as_it_can() -> None:
    nodes = [of_chip("mini", "Apple M4", 30 * GB), of_chip("studio", "Apple M3 Ultra", 20 * GB)]
    plan = make_plan(model(layers=30, layer=GB), nodes, WISH)
    assert sorted(shape(plan)) == [("mini", 0, 10), ("studio", 10, 30)] or sorted(shape(plan)) == [
        ("mini", 20, 30),
        ("studio", 0, 20),
    ]
    assert "would fit 1 node, but 2 are faster" in plan.why
    more = make_plan(model(layers=40, layer=GB), nodes, WISH)
    assert "need 2 nodes; split over mini, studio: the faster nodes hold as much as they can" in more.why


def test_a_slow_node_that_could_hold_it_alone_gives_way_to_two_fast_ones() -> None:
    nodes = [of_chip("old", "M1", 30 * GB), of_chip("a", "M3 Ultra", 12 * GB), of_chip("b", "M3 Ultra", 12 * GB)]
    plan = make_plan(model(layers=20, layer=GB), nodes, WISH)
    assert {name for name, _, _ in shape(plan)} == {"a", "b"}
    assert "would fit 1 node, but 2 are faster" in plan.why
    assert "Left out: old (would slow a stream from" in plan.why


def test_a_node_behind_a_slow_link_is_left_out_and_the_reason_told() -> None:
    far = tuple(Link(NodeId(f"{name}-id"), 0.05, 1e6) for name in ("a", "b"))
    nodes = [node("a", 12 * GB), node("b", 12 * GB), replace(node("far", 14 * GB), links=far)]
    plan = make_plan(model(layers=20, layer=GB), nodes, WISH)
    assert {name for name, _, _ in shape(plan)} == {"a", "b"}
    assert "far (would slow a stream from" in plan.why


def test_the_ring_goes_round_so_that_slow_links_are_not_used() -> None:
    """Four in a row: a-c, c-b, b-d and d-a are good links, the two others are not."""
    good = {("a", "c"), ("c", "b"), ("b", "d"), ("d", "a")}

    def links(name: str) -> tuple[Link, ...]:
        return tuple(
            Link(NodeId(f"{b}-id"), 0.0001 if {(name, b), (b, name)} & good else 0.05, 1e9) for b in "abcd" if b != name
        )

    plan = make_plan(model(layers=40, layer=GB), [replace(node(n, 11 * GB), links=links(n)) for n in "abcd"], WISH)
    names = [name for name, _, _ in shape(plan)]
    hops = set(zip(names, names[1:] + names[:1], strict=True))
    assert all((a, b) in good or (b, a) in good for a, b in hops)


def test_for_throughput_the_slowest_stage_is_made_as_fast_as_it_can_be() -> None:
    nodes = [node("a", 30 * GB), node("b", 30 * GB)]
    latency = make_plan(model(layers=20, layer=GB), nodes, WISH)
    throughput = make_plan(model(layers=20, layer=GB), nodes, replace(WISH, objective="throughput"))
    assert len(latency.stages) == 1
    assert shape(throughput) == [("a", 0, 10), ("b", 10, 20)]
    assert latency.predicted is not None
    assert throughput.predicted is not None
    assert throughput.predicted.aggregate_tokens_per_s > 1.9 * latency.predicted.aggregate_tokens_per_s
    assert throughput.predicted.tokens_per_s < latency.predicted.tokens_per_s
    assert "would fit 1 node, but 2 serve more tokens a second" in throughput.why


def test_a_ring_of_eight_does_not_grow_and_says_so() -> None:
    nodes = [node(f"n{number}", 10 * GB) for number in range(9)]
    plan = make_plan(model(layers=80, layer=GB), nodes, WISH)
    assert len(plan.stages) == 8
    assert "n8 (a ring has at most 8 shards, and these serve best)" in plan.why


def test_a_measured_speed_counts_more_than_the_chips_name() -> None:
    nodes = [of_chip("hot", "M3 Ultra", 20 * GB), of_chip("mini", "M4 Pro", 19 * GB)]
    assert shape(make_plan(model(layers=10, layer=GB), nodes, WISH)) == [("hot", 0, 10)]
    nodes[0] = replace(nodes[0], bytes_per_s=50e9)
    assert shape(make_plan(model(layers=10, layer=GB), nodes, WISH)) == [("mini", 0, 10)]


def test_an_excluded_node_takes_no_part_and_one_that_is_away_is_no_error() -> None:
    plan = make_plan(model(), [node("a", 20 * GB), node("b")], replace(WISH, exclude=("a", "away")))
    assert shape(plan) == [("b", 0, 10)]
    assert "Excluded as asked: a" in plan.why


def test_excluding_every_node_that_could_hold_it_is_refused_with_the_numbers() -> None:
    with pytest.raises(ModelDoesNotFit, match="no node is here"):
        make_plan(model(), [node("a")], replace(WISH, exclude=("a",)))


def test_a_node_cannot_be_excluded_and_given_layers() -> None:
    with pytest.raises(BadRequest, match="a is excluded, but layers names it") as caught:
        make_plan(model(), [node("a")], replace(WISH, layers=(("a", 0, 10),), exclude=("a",)))
    assert caught.value.param == "exclude"


def test_a_full_node_is_named_as_full() -> None:
    plan = make_plan(model(), [node("a"), node("full", 0)], WISH)
    assert "full (no memory free for it)" in plan.why


def test_a_laptop_on_the_wireless_network_is_left_out_at_home() -> None:
    costs = described_costs("llama-3.3-70b-4bit")
    assert costs is not None
    plan = make_plan(costs, load("home"), PlanWish(8192, 2))
    assert [stage.node for stage in plan.stages] == ["studio"]
    assert "macbook (would slow a stream" in plan.why


def test_layers_by_hand_and_counted_shards_are_predicted_too() -> None:
    nodes = [node("a"), node("b")]
    for wish in (replace(WISH, shards=3), replace(WISH, layers=(("b", 0, 4), ("a", 4, 10)))):
        predicted = make_plan(model(), nodes, wish).predicted
        assert predicted is not None
        assert len(predicted.stage_s) == len(predicted.hop_s) == (wish.shards or 2)


def test_an_old_plan_is_judged_by_the_figures_of_today() -> None:
    nodes = [node("a"), node("b")]
    plan = make_plan(model(), nodes, WISH)
    slower = [replace(node, bytes_per_s=1e9) for node in nodes]
    assert plan.predicted == predicted_now(plan, model(), nodes)
    now = predicted_now(plan, model(), slower)
    assert now is not None
    assert plan.predicted is not None
    assert now.tokens_per_s < plan.predicted.tokens_per_s / 10
    assert predicted_now(plan, model(), nodes[1:]) is None, "its node is gone"
