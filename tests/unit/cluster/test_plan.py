from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.cluster.messages import NodeProfile, PlanWish
from ringleader.cluster.plan import NODE_RESERVE_BYTES, STAGES_MAX, Plan, Stage, context_that_fits, make_plan
from ringleader.errors import BadRequest, ModelDoesNotFit
from ringleader.values import Draft, LayerRange, ModelCosts, ModelId, NodeId
from tests.unit.cluster.builders import GB, MB, WISH, model, node


def shape(plan: Plan) -> list[tuple[str, int, int]]:
    return [(stage.node.removesuffix("-id"), stage.layers.start, stage.layers.stop) for stage in plan.stages]


def holds(plan: Plan, nodes: list[NodeProfile]) -> bool:
    used = {n.node: 0 for n in nodes}
    for stage in plan.stages:
        used[stage.node] += stage.memory_bytes
    return all(used[n.node] <= max(0, n.memory_free_bytes - NODE_RESERVE_BYTES) for n in nodes)


# ---------------------------------------------------------------- the plan itself


def stage(start: int, stop: int) -> Stage:
    return Stage(NodeId("a"), LayerRange(start, stop), 1, 1)


@pytest.mark.parametrize("ranges", [[], [(0, 2)], [(1, 3)], [(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 2), (2, 4)]])
def test_a_plan_that_does_not_cover_each_layer_once_in_order_cannot_be_made(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"stage|layer"):
        Plan(ModelId("m"), "d", 3, 10, tuple(stage(*r) for r in ranges), "")


def test_a_plan_of_nine_stages_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="8 stages"):
        Plan(ModelId("m"), "d", 9, 10, tuple(stage(i, i + 1) for i in range(STAGES_MAX + 1)), "")


def test_the_hash_names_the_content_and_not_the_reason() -> None:
    plan = Plan(ModelId("m"), "d", 3, 10, (stage(0, 3),), "because")
    assert len(plan.hash) == 32
    assert replace(plan, why="otherwise").hash == plan.hash
    others = [replace(plan, digest="e"), replace(plan, context_tokens=11), replace(plan, serial=1)]
    others += [replace(plan, streams=2), replace(plan, stages=(stage(0, 1), stage(1, 3)))]
    assert len({plan.hash, *(other.hash for other in others)}) == 6


# ---------------------------------------------------------------- the fewest nodes that fit


def test_a_model_that_fits_one_node_goes_on_the_roomiest() -> None:
    assert shape(make_plan(model(), [node("a", 2 * GB), node("b", 3 * GB)], WISH)) == [("b", 0, 10)]


def test_the_master_comes_first_among_equals() -> None:
    assert shape(make_plan(model(), [node("master"), node("b"), node("c")], WISH)) == [("master", 0, 10)]


def test_layers_are_shared_in_proportion_to_the_rooms() -> None:
    costs = model(layers=94, layer=1500 * MB)
    assert shape(make_plan(costs, [node("mini", 32 * GB), node("studio", 128 * GB)], WISH)) == [
        ("studio", 0, 75),
        ("mini", 75, 94),
    ]


def test_the_embedding_and_the_output_head_are_weighed_where_they_lie() -> None:
    plan = make_plan(model(layers=10, layer=GB, ends=(3 * GB, GB)), [node("a", 8 * GB), node("b", 8 * GB)], WISH)
    assert [s.weight_bytes for s in plan.stages] == [7 * GB, 7 * GB]
    assert shape(plan) == [("a", 0, 4), ("b", 4, 10)]


def test_the_context_is_paid_for_by_every_layer() -> None:
    costs = model(layers=10, layer=100 * MB, kv=1000)
    short = make_plan(costs, [node("a", 1900 * MB), node("b", 1900 * MB)], PlanWish(1000))
    long = make_plan(costs, [node("a", 1900 * MB), node("b", 1900 * MB)], PlanWish(100_000 + 1))
    assert [s.kv_bytes for s in short.stages] == [10 * MB]
    assert [s.kv_bytes for s in long.stages] == [500 * MB, 500 * MB]
    assert long.context_tokens == 100_000, "cut to the model's own context"


def test_a_big_output_head_goes_on_the_node_that_can_hold_it() -> None:
    costs = model(layers=3, layer=GB, ends=(0, 5 * GB))
    assert shape(make_plan(costs, [node("big", 6 * GB), node("small", 2 * GB)], WISH)) == [
        ("small", 0, 2),
        ("big", 2, 3),
    ]


def test_a_model_that_does_not_fit_is_refused_with_the_numbers() -> None:
    costs = model("deepseek", layers=101, layer=4 * GB - 8192, kv=1)
    nodes = [node("studio", 150 * GB), node("mini", 83 * GB), node("full", -1)]
    with pytest.raises(ModelDoesNotFit) as caught:
        make_plan(costs, nodes, PlanWish(8192))
    assert (
        "deepseek does not fit: it needs 404.0 GB with 8192 tokens of context, the cluster has 233.0 GB free: "
        "short by 171.0 GB" in str(caught.value)
    )
    assert "studio 150.0 GB, mini 83.0 GB, full 0.0 MB" in str(caught.value)


def test_enough_memory_in_pieces_that_are_too_small_is_refused_with_that_reason() -> None:
    with pytest.raises(ModelDoesNotFit, match="no cut between whole layers fits"):
        make_plan(model(layers=2, layer=3 * GB), [node(name, 2 * GB) for name in "abcd"], WISH)


def test_no_node_at_all_is_refused() -> None:
    with pytest.raises(ModelDoesNotFit, match="no node is here"):
        make_plan(model(), [], WISH)


rooms = st.lists(st.integers(0, 60), min_size=1, max_size=4)
layer_sizes = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=6)


@given(rooms, layer_sizes, st.integers(0, 20), st.integers(0, 20), st.integers(1, 4))
def test_a_plan_is_made_of_the_fewest_nodes_exactly_when_one_exists(
    rooms: list[int], layers: list[tuple[int, int]], head: int, tail: int, context: int
) -> None:
    nodes = [node(str(place), room) for place, room in enumerate(rooms)]
    costs = ModelCosts(
        ModelId("m"), "d", "f", tuple(w for w, _ in layers), head, tail, tuple(k for _, k in layers), 8, 100
    )
    least = _fewest_by_trying_all(costs, rooms, context)
    try:
        plan = make_plan(costs, nodes, PlanWish(context))
    except ModelDoesNotFit:
        assert least is None
    else:
        assert holds(plan, nodes)
        assert len(plan.stages) == len({s.node for s in plan.stages}) == least


def _fewest_by_trying_all(costs: ModelCosts, rooms: list[int], context: int) -> int | None:
    layers = [w + k * context for w, k in zip(costs.layer_bytes, costs.kv_bytes_per_token, strict=True)]
    layers[0] += costs.head_bytes
    layers[-1] += costs.tail_bytes
    usable = [room for room in rooms if room > 0]
    for count in range(1, min(len(usable), len(layers)) + 1):
        for order in permutations(usable, count):
            if _can_hold(layers, list(order)):
                return count
    return None


def _can_hold(layers: list[int], rooms: list[int]) -> bool:
    if not rooms:
        return not layers
    return any(sum(layers[:n]) <= rooms[0] and _can_hold(layers[n:], rooms[1:]) for n in range(1, len(layers) + 1))


# ---------------------------------------------------------------- as many shards as asked


@pytest.mark.parametrize(("shards", "cuts"), [(1, [30]), (2, [15, 15]), (4, [8, 8, 7, 7]), (8, [4] * 6 + [3, 3])])
def test_shards_are_spread_evenly_over_two_nodes(shards: int, cuts: list[int]) -> None:
    plan = make_plan(model(layers=30), [node("a"), node("b", 11 * GB)], PlanWish(1000, shards=shards))
    assert sorted((len(s.layers) for s in plan.stages), reverse=True) == cuts
    assert len({s.node for s in plan.stages}) == min(2, shards)


def test_shards_of_one_node_lie_side_by_side() -> None:
    plan = make_plan(model(layers=30), [node("a"), node("b")], PlanWish(1000, shards=3))
    assert shape(plan) == [("a", 0, 10), ("a", 10, 20), ("b", 20, 30)]


def test_shards_are_as_even_as_the_memory_allows() -> None:
    plan = make_plan(model(layers=10, layer=GB), [node("a", 9 * GB), node("b", 3 * GB)], PlanWish(1000, shards=2))
    assert shape(plan) == [("a", 0, 7), ("b", 7, 10)]


def test_shards_share_a_node_when_the_others_have_no_room() -> None:
    plan = make_plan(model(), [node("a"), node("full", 0)], PlanWish(1000, shards=3))
    assert {name for name, _, _ in shape(plan)} == {"a"}
    assert len(plan.stages) == 3


@pytest.mark.parametrize("shards", [0, -1, 9])
def test_a_number_of_shards_that_no_ring_has_is_refused(shards: int) -> None:
    with pytest.raises(BadRequest, match="1 to 8") as caught:
        make_plan(model(layers=30), [node("a")], PlanWish(1000, shards=shards))
    assert caught.value.param == "shards"


def test_more_shards_than_layers_are_refused() -> None:
    with pytest.raises(BadRequest, match="has 3 layers") as caught:
        make_plan(model(layers=3), [node("a")], PlanWish(1000, shards=4))
    assert caught.value.param == "shards"


def test_shards_that_do_not_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(ModelDoesNotFit, match=r"short by 1.0 GB"):
        make_plan(model(layers=10, layer=GB), [node("a", 9 * GB)], PlanWish(1000, shards=2))


# ---------------------------------------------------------------- layers as written


def written(*layers: tuple[str, int, int]) -> PlanWish:
    return PlanWish(1000, shards=5, layers=layers)


def test_layers_go_where_they_were_written_even_twice_on_one_node() -> None:
    plan = make_plan(model(), [node("a"), node("b")], written(("b", 0, 1), ("a", 1, 7), ("b", 7, 10)))
    assert shape(plan) == [("b", 0, 1), ("a", 1, 7), ("b", 7, 10)]


@pytest.mark.parametrize(
    ("layers", "complaint"),
    [
        ([("c", 0, 10)], r"'c', which is not here; the nodes are: a, b"),
        ([("a", 0, 4), ("b", 6, 10)], r"gap before b=6-9: nobody holds 4-5"),
        ([("a", 2, 10)], r"gap before a=2-9: nobody holds 0-1"),
        ([("a", 0, 5), ("b", 4, 10)], r"overlap at b=4-9.*must start at 5"),
        ([("a", 0, 11)], r"past the end: tiny has layers 0-9"),
        ([("a", 0, 9)], r"nobody holds 9-9"),
        ([("a", 0, 0)], r"empty"),
        ([("a", -1, 3)], r"empty"),
        ([("a", i, i + 1) for i in range(9)], r"9 ranges; at most 8"),
    ],
)
def test_wrong_layers_are_refused_saying_what_is_wrong(layers: list[tuple[str, int, int]], complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint) as caught:
        make_plan(model(), [node("a"), node("b")], written(*layers))
    assert caught.value.param == "layers"


def test_a_name_that_two_nodes_share_is_refused() -> None:
    twin = replace(node("a"), node=NodeId("other"))
    with pytest.raises(BadRequest, match="2 nodes are called 'a'"):
        make_plan(model(), [node("a"), twin], written(("a", 0, 10)))


def test_written_layers_must_fit_the_node_all_together() -> None:
    wish = written(("a", 0, 4), ("b", 4, 5), ("a", 5, 10))
    with pytest.raises(ModelDoesNotFit, match=r"layers on a need 9.0 GB.*has 8.5 GB free: short by 500.0 MB"):
        make_plan(model(layer=GB), [node("a", 8500 * MB), node("b")], wish)


def test_a_context_of_nothing_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        make_plan(model(), [node("a")], PlanWish(0))
    assert caught.value.param == "context_tokens"


def test_caches_in_fewer_bits_leave_room_for_longer_contexts_and_make_another_plan() -> None:
    costs, nodes = model(layers=4, layer=MB, kv=1000), [node("a", 100 * MB)]
    wish = PlanWish(context_tokens=10_000)
    plain, kept = make_plan(costs, nodes, wish), make_plan(costs, nodes, replace(wish, kv_bits=8))
    assert plain.stages[0].kv_bytes == 40_000_000
    assert kept.stages[0].kv_bytes == 4 * 10_000 * 532
    assert (plain.kv_bits, kept.kv_bits) == (0, 8)
    assert plain.hash != kept.hash
    longest = [context_that_fits(costs, nodes, replace(wish, kv_bits=bits)) for bits in (0, 8, 4)]
    assert longest == sorted(longest) and longest[2] > 3 * longest[0]


def test_a_draft_model_takes_its_room_on_the_head_and_makes_another_plan() -> None:
    costs, nodes = model(layers=4, layer=MB, kv=1000), [node("a", 100 * MB), node("b", 100 * MB)]
    wish = PlanWish(context_tokens=1000, shards=2)
    draft = Draft("small", 30 * MB, 100)
    plain, drafting = make_plan(costs, nodes, wish), make_plan(costs, nodes, replace(wish, draft=draft))
    head = drafting.stages[0]
    assert head.weight_bytes == costs.head_bytes + 30 * MB + len(head.layers) * MB
    assert head.kv_bytes == 1000 * (len(head.layers) * 1000 + 100)
    assert plain.hash != drafting.hash
    with pytest.raises(ModelDoesNotFit):
        make_plan(costs, nodes, replace(wish, draft=replace(draft, weight_bytes=200 * MB)))
