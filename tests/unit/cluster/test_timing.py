from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ringleader.cluster.chips import BANDWIDTH, bandwidth
from ringleader.cluster.timing import (
    EFFICIENCY,
    HOP_S_MAX,
    LAYER_S,
    PS,
    SPARSE_LAYER_S,
    STAGE_S,
    UNKNOWN_BYTES_PER_S,
    UNMEASURED,
    Link,
    Pace,
)
from ringleader.values import NodeId
from tests.unit.cluster.builders import GB, model, node


def test_a_stage_takes_its_weights_its_layers_and_the_output_head_at_the_end() -> None:
    costs = model(layers=4, layer=GB, ends=(5 * GB, 2 * GB))
    pace = Pace(costs, [replace(node("a"), bytes_per_s=1e11)])
    assert pace.stage(0, 0, 2) / PS == pytest.approx(2 * (0.01 + LAYER_S) + STAGE_S), "the embedding is one row"
    assert pace.stage(0, 2, 4) / PS == pytest.approx(2 * (0.01 + LAYER_S) + 0.02 + STAGE_S)


def test_of_a_layer_of_experts_only_what_is_read_takes_time() -> None:
    costs = replace(model(layers=2, layer=GB), active_bytes=(GB, GB // 10))
    pace = Pace(costs, [replace(node("a"), bytes_per_s=1e11)])
    assert pace.stage(0, 0, 1) / PS == pytest.approx(0.01 + LAYER_S + STAGE_S)
    assert pace.stage(0, 1, 2) / PS == pytest.approx(0.001 + SPARSE_LAYER_S + STAGE_S)


def test_a_hop_is_latency_and_the_frame_and_the_way_back_is_latency_alone() -> None:
    links = (Link(NodeId("b-id"), 0.001, 1e6),)
    pace = Pace(replace(model(), hidden_size=5000), [replace(node("a"), links=links), node("b")])
    assert [hop / PS for hop in pace.between([0, 1])] == pytest.approx([0.001 + 0.01, 0.001])
    assert [hop / PS for hop in pace.between([1, 0])] == pytest.approx([0.011, 0.001]), "b has not measured: a has"


def test_what_was_not_measured_is_as_good_as_gigabit_ethernet_for_all() -> None:
    pace = Pace(model(), [node("a"), node("b"), node("c")])
    hops = {pace.hops[a][b] for a in range(3) for b in range(3) if a != b}
    assert [hop / PS for hop in hops] == pytest.approx([UNMEASURED.latency_s + 128 / UNMEASURED.bytes_per_s])


def test_one_shard_has_no_hop_and_neighbours_on_one_node_have_none_between_them() -> None:
    a, b = node("a"), node("b")
    assert Pace(model(), [a]).between([0]) == []
    first, second, third = Pace(model(), [a, a, b]).between([0, 1, 2])
    assert first == 0
    assert second > 0
    assert third > 0


@pytest.mark.parametrize(
    "link",
    [
        Link(NodeId("b-id"), math.nan, 1e9),
        Link(NodeId("b-id"), 0.1, math.nan),
        Link(NodeId("b-id"), -1.0, 1e9),
        Link(NodeId("b-id"), 0.1, 0.0),
        Link(NodeId("b-id"), math.inf, 1e9),
        Link(NodeId("b-id"), 0.1, 1e-300),
    ],
)
def test_a_link_that_was_measured_wrongly_is_bounded(link: Link) -> None:
    pace = Pace(model(), [replace(node("a"), links=(link,)), node("b")])
    assert all(0 < hop <= HOP_S_MAX * PS for hop in pace.between([0, 1]))


@pytest.mark.parametrize("told", [0.0, -1.0, math.nan, math.inf, 1.0, 1e300])
def test_a_speed_that_was_measured_wrongly_does_not_count(told: float) -> None:
    costs = model(layers=1, layer=GB)
    known = Pace(costs, [replace(node("a"), chip="Apple M4 Pro", bytes_per_s=told)]).stage(0, 0, 1)
    assert known / PS == pytest.approx(GB / (273e9 * EFFICIENCY) + LAYER_S + STAGE_S)
    unknown = Pace(costs, [replace(node("a"), chip="AMD EPYC", bytes_per_s=told)]).stage(0, 0, 1)
    assert unknown / PS == pytest.approx(GB / UNKNOWN_BYTES_PER_S + LAYER_S + STAGE_S)


@pytest.mark.parametrize(
    ("chip", "gb_per_s"),
    [
        ("Apple M1", 68.25),
        ("Apple M3 Ultra", 819),
        ("M4 Max", 546),
        ("Apple M4 Max 32-core", 410),
        ("M4 Max 40-core", 546),
        ("apple m4", None),
        ("Apple M4 Ultra", None),
        ("Intel(R) Core(TM) i7", None),
        ("", None),
    ],
)
def test_a_chip_is_known_by_the_name_that_macos_gives_it(chip: str, gb_per_s: float | None) -> None:
    assert bandwidth(chip) == (None if gb_per_s is None else gb_per_s * 10**9)


def test_every_chip_of_the_table_is_found_under_its_own_name() -> None:
    assert {name: bandwidth(name) for name in BANDWIDTH} == {name: rate * 10**9 for name, rate in BANDWIDTH.items()}
