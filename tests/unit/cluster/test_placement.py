from __future__ import annotations

from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import LOOK_AFTER_S, Leadership
from ringleader.cluster.placement import KEEP_S
from ringleader.cluster.plan import Plan
from ringleader.cluster.rings import STOP_DEADLINE_S
from ringleader.errors import BadRequest, ModelDoesNotFit
from ringleader.values import ModelCosts, NodeId, RequestId
from tests.unit.cluster.builders import GB, WISH, arrival, bring_up, model, node, of_kind
from tests.unit.cluster.words_of import report

ME, B, C = node("me"), node("b"), node("c")
TERM = m.Term(3, ME.node)
TWO = m.PlanWish(1000, shards=2)
BIG, ALSO_BIG = model("big", layer=GB * 9 // 10), model("also", layer=GB * 9 // 10)


def master(*others: m.NodeProfile, idle_unload_s: float | None = None) -> Leadership:
    state = Leadership(ME, TERM, 0.0, idle_unload_s)
    for other in others:
        state.step(m.NodeJoined(other, ()), 0.0)
    state.everyone_is_here()
    return state


def planned(effects: list[m.Effect]) -> Plan:
    return next(effect.plan for effect in effects if isinstance(effect, m.StartShard))


def serve(state: Leadership, costs: ModelCosts, now: float, wish: m.PlanWish = WISH) -> Plan:
    """The model is served, its request has ended, and its memory is taken."""
    effects = state.step(arrival(f"{costs.model}-{now}", costs, wish, deadline=now + 100), now)
    bring_up(state, effects, now)
    state.step(m.RequestEnded(RequestId(f"{costs.model}-{now}")), now)
    return planned(effects)


def told(effects: list[m.Effect]) -> list[str]:
    return [effect.kind for effect in effects if isinstance(effect, m.Tell)]


def failed(effects: list[m.Effect]) -> list[type]:
    return [type(effect.error) for effect in effects if isinstance(effect, m.FailRequest)]


# ---------------------------------------------------------------- memory for another model


def test_a_model_that_does_not_fit_beside_idle_ones_takes_the_room_of_the_longest_unused() -> None:
    state = master(B)
    first, second = serve(state, BIG, 1.0), serve(state, ALSO_BIG, 2.0)
    state.step(arrival("again", BIG), 3.0)
    state.step(m.RequestEnded(RequestId("again")), 4.0)
    effects = state.step(arrival("third", model("third", layer=GB * 9 // 10)), 5.0)
    assert "ring_unloaded" in told(effects)
    (stop,) = of_kind(effects, m.StopShard)
    assert isinstance(stop, m.StopShard)
    assert stop.plan == second.hash, "the first was used later"
    assert stop.plan != first.hash
    assert planned(effects).model == "third"


def test_a_ring_that_is_used_or_wished_for_keeps_its_room() -> None:
    state = master()
    state.step(m.RingWanted(BIG, WISH), 1.0)
    assert failed(state.step(arrival("r", ALSO_BIG), 2.0)) == [ModelDoesNotFit]
    busy = master()
    bring_up(busy, busy.step(arrival("runs", BIG), 1.0), 1.0)
    assert failed(busy.step(arrival("r", ALSO_BIG), 2.0)) == [ModelDoesNotFit]


def test_nothing_is_unloaded_for_a_model_that_does_not_fit_all_the_same() -> None:
    state = master()
    serve(state, BIG, 1.0)
    effects = state.step(arrival("r", model("huge", layer=5 * GB)), 2.0)
    assert failed(effects) == [ModelDoesNotFit]
    assert not of_kind(effects, m.StopShard)


def test_a_shard_waits_for_the_memory_that_the_stopping_one_still_holds() -> None:
    state = master()
    old = serve(state, BIG, 1.0)
    state.step(m.ShardBecameReady(old.hash, 0, "x", 9 * GB, 1), 1.0)
    full = replace(ME, memory_free_bytes=ME.memory_free_bytes - 9 * GB, memory_held_bytes=9 * GB)
    state._placement.ring_of(old.hash).shards[0].memory_bytes = 9 * GB  # type: ignore[union-attr]  # it is there
    state.step(m.NodeReported(ME.node, full.memory_free_bytes, None, full), 1.5)
    effects = state.step(arrival("r", ALSO_BIG), 2.0)
    assert of_kind(effects, m.StopShard) == [m.StopShard(ME.node, old.hash, 0)]
    assert not of_kind(effects, m.StartShard)
    assert not of_kind(state.step(m.Ticked(), 3.0), m.StartShard)
    state.step(m.ShardDied(old.hash, 0, "stopped"), 4.0)
    assert planned(state.step(m.Ticked(), 4.1)).model == "also"


def test_an_unused_model_is_unloaded_after_a_while_and_a_wished_one_is_not() -> None:
    state = master(idle_unload_s=60.0)
    plan = serve(state, model(), 1.0)
    bring_up(state, state.step(m.RingWanted(model("wished"), WISH), 1.0), 1.0)
    assert not of_kind(state.step(m.Ticked(), 60.0), m.StopShard)
    effects = state.step(m.Ticked(), 61.5)
    assert of_kind(effects, m.StopShard) == [m.StopShard(ME.node, plan.hash, 0)]
    assert told(effects) == ["ring_unloaded"]
    assert [ring.model for ring in state.snapshot().rings] == ["wished"]


# ---------------------------------------------------------------- the next plan goes on with what is there


def test_the_shards_that_a_lost_node_leaves_wait_for_the_next_plan_and_go_on_in_it() -> None:
    state = master(B)
    plan = serve(state, model(), 1.0, TWO)
    effects = state.step(m.NodeLost(B.node, "off"), 2.0)
    assert not of_kind(effects, m.StopShard)
    (kept, fresh) = of_kind(state.step(arrival("s", wish=TWO), 2.5), m.StartShard)
    assert isinstance(kept, m.StartShard)
    assert isinstance(fresh, m.StartShard)
    assert (kept.node, kept.instead_of) == (ME.node, (plan.hash, 0))
    assert (fresh.node, fresh.instead_of) == (ME.node, None)


def test_a_ring_that_goes_on_with_shards_is_linked_in_epochs_that_they_have_not_seen() -> None:
    state = master(B)
    effects = state.step(arrival("r", wish=TWO), 1.0)
    links = of_kind(bring_up(state, effects, 1.0), m.LinkRing)
    state.step(m.NodeLost(B.node, "off"), 2.0)
    again = bring_up(state, state.step(arrival("s", wish=TWO), 2.5), 2.5)
    epochs = [each.epoch for each in [*links, *of_kind(again, m.LinkRing)] if isinstance(each, m.LinkRing)]
    assert len(epochs) == 2
    assert epochs[0] < epochs[1]


def test_the_shards_that_no_plan_goes_on_with_are_stopped_and_told_again_until_they_are_gone() -> None:
    state = master(B)
    plan = serve(state, model(), 1.0, TWO)
    assignment = state.assignment(plan.hash)
    assert assignment is not None
    state.step(m.NodeLost(B.node, "off"), 2.0)
    stop = m.StopShard(ME.node, plan.hash, 0)
    assert stop in state.step(m.Ticked(), 2.0 + KEEP_S)
    alive = (report(assignment, 0),)
    assert state.step(m.NodeReported(ME.node, 1, alive), 6.0) == [stop]
    assert state.step(m.NodeReported(ME.node, 1, ()), 6.5) == []


def test_a_ring_moves_to_a_much_better_plan_when_no_request_runs() -> None:
    slow = replace(ME, chip="Apple M1")
    state = Leadership(slow, TERM, 0.0)
    state.everyone_is_here()
    plan = serve(state, BIG, 1.0)
    state.step(arrival("runs", BIG, deadline=1e9), 2.0)
    state.step(m.NodeJoined(replace(node("fast", room=50 * GB), chip="Apple M3 Ultra"), ()), 3.0)
    assert not of_kind(state.step(m.Ticked(), 3.0 + LOOK_AFTER_S), m.StartShard), "a request runs"
    state.step(m.RequestEnded(RequestId("runs")), 20.0)
    effects = state.step(m.Ticked(), 20.1)
    assert "ring_moved" in told(effects)
    assert m.CloseRing(plan.hash) in effects
    assert {stage.node for stage in planned(effects).stages} == {NodeId("fast-id")}
    assert of_kind(effects, m.StopShard) == [m.StopShard(ME.node, plan.hash, 0)]


def test_a_ring_does_not_move_for_a_node_that_is_no_better() -> None:
    state = master()
    serve(state, BIG, 1.0)
    state.step(m.NodeJoined(B, ()), 3.0)
    assert not of_kind(state.step(m.Ticked(), 3.0 + LOOK_AFTER_S), m.StartShard, m.CloseRing)


# ---------------------------------------------------------------- what is found


def test_nothing_new_is_placed_before_the_nodes_have_reported() -> None:
    state = Leadership(ME, TERM, 0.0)
    assert not of_kind(state.step(arrival("r"), 0.1), m.StartShard)
    assert not of_kind(state.step(m.Ticked(), 1.9), m.StartShard)
    assert of_kind(state.step(m.Ticked(), 2.0), m.StartShard)


def test_shards_of_a_plan_that_is_not_wanted_are_stopped_at_each_report() -> None:
    other = master(B)
    stray = other.assignment(serve(other, model(), 1.0, TWO).hash)
    assert stray is not None
    stray = replace(stray, plan=replace(stray.plan, serial=99))
    state = master()
    serve(state, model(), 1.0)
    state.step(m.NodeJoined(B, (report(stray, 1),)), 2.0)
    stop = m.StopShard(B.node, stray.plan.hash, 1)
    effects = state.step(m.Ticked(), 5.0)
    assert stop in effects
    assert "shard_stray" in told(effects)
    assert state.step(m.NodeReported(B.node, 1, (report(stray, 1),)), 6.0) == [stop]
    assert state.step(m.NodeReported(B.node, 1, (report(stray, 1),)), 6.0 + STOP_DEADLINE_S) == [stop]


def test_layers_for_a_name_that_two_nodes_have_are_refused_with_both_of_them() -> None:
    twin = replace(C, name="b")
    state = master(B, twin)
    effects = state.step(arrival("r", wish=m.PlanWish(1000, layers=(("b", 0, 10),))), 1.0)
    (fail,) = of_kind(effects, m.FailRequest)
    assert isinstance(fail, m.FailRequest)
    assert isinstance(fail.error, BadRequest)
    assert "2 nodes are called 'b' (b at b.local, b~c-id at c.local)" in str(fail.error)
    by_suffix = state.step(arrival("s", wish=m.PlanWish(1000, layers=(("b~c-id", 0, 10),))), 2.0)
    assert planned(by_suffix).stages[0].node == C.node


def test_a_node_that_is_back_at_once_brings_its_shard_and_nothing_is_loaded_anew() -> None:
    state = master(B)
    plan = serve(state, model(), 1.0, TWO)
    assignment = state.assignment(plan.hash)
    assert assignment is not None
    state.step(m.NodeLost(B.node, "it is not heard any more"), 2.0)
    state.step(m.NodeJoined(B, (report(assignment, 1),)), 3.0)
    orders = of_kind(state.step(arrival("s", wish=TWO), 3.1), m.StartShard)
    assert [each.instead_of for each in orders if isinstance(each, m.StartShard)] == [(plan.hash, 0), (plan.hash, 1)]


def test_a_request_waits_a_moment_for_a_lost_node_without_which_the_model_does_not_fit() -> None:
    state = master(B)
    serve(state, model("wide", layer=GB * 3 // 2), 1.0)
    state.step(m.NodeLost(B.node, "off"), 2.0)
    assert not failed(state.step(arrival("s", model("wide", layer=GB * 3 // 2)), 2.1))
    assert not failed(state.step(m.Ticked(), 2.0 + KEEP_S - 0.1))
    assert failed(state.step(m.Ticked(), 2.0 + KEEP_S)) == [ModelDoesNotFit]
