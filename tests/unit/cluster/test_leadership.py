from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import RETURN_S, Leadership
from ringleader.cluster.plan import Plan
from ringleader.cluster.requests import QUEUE_MAX
from ringleader.cluster.rings import BACKOFF_MAX_S, FAILURES_MAX
from ringleader.cluster.rollout import COOL_DOWN_S
from ringleader.errors import BadRequest, Busy, DeadlinePassed, ModelDoesNotFit, ModelFault, ModelLoading, RingLost
from ringleader.values import ModelId, NodeId, PlanHash, RequestId
from tests.unit.cluster.builders import GB, WISH, arrival, bring_up, model, node, of_kind

ME, B, C = node("me"), node("b"), node("c")
TWO = m.PlanWish(1000, shards=2)
R = RequestId("r")


def cluster(*others: m.NodeProfile) -> Leadership:
    state = Leadership(ME)
    for other in others:
        state.step(m.NodeJoined(other), 0.0)
    return state


def planned(effects: list[m.Effect]) -> Plan:
    return next(effect.plan for effect in effects if isinstance(effect, m.StartShard))


def serving(*others: m.NodeProfile, wish: m.PlanWish = TWO) -> tuple[Leadership, Plan]:
    """A cluster whose ring of "tiny" serves and runs request "r"."""
    state = cluster(*others)
    effects = state.step(arrival("r", wish=wish), 1.0)
    assert m.Dispatch(R, planned(effects).hash) in bring_up(state, effects, 1.0)
    return state, planned(effects)


def failures(effects: list[m.Effect]) -> dict[str, Exception]:
    return {e.request: e.error for e in effects if isinstance(e, m.FailRequest)}


# ---------------------------------------------------------------- the good way


def test_a_request_for_a_model_without_a_ring_plans_it_waits_and_is_dispatched_when_it_serves() -> None:
    state = cluster(B)
    effects = state.step(arrival("r", wish=TWO), 1.0)
    plan = planned(effects)
    assert of_kind(effects, m.StartShard) == [m.StartShard(ME.node, plan, 0), m.StartShard(B.node, plan, 1)]
    assert not of_kind(effects, m.Dispatch)
    assert not of_kind(state.step(arrival("s", wish=TWO), 1.1), m.StartShard, m.Dispatch)
    after = bring_up(state, effects, 2.0)
    assert of_kind(after, m.Dispatch) == [m.Dispatch(R, plan.hash), m.Dispatch(RequestId("s"), plan.hash)]


def test_a_ring_that_serves_is_given_requests_at_once() -> None:
    state, plan = serving(B)
    assert state.step(arrival("s"), 5.0) == [m.Dispatch(RequestId("s"), plan.hash)]


def test_several_models_are_served_at_once_and_do_not_touch_each_other() -> None:
    state, plan = serving(B)
    effects = state.step(arrival("other", model("second")), 5.0)
    assert planned(effects).model == "second"
    assert m.Dispatch(RequestId("other"), planned(effects).hash) in bring_up(state, effects, 6.0)
    lost = state.step(m.ShardDied(planned(effects).hash, 0, "x"), 7.0)
    assert list(failures(lost)) == ["other"]
    assert state.step(arrival("s"), 8.0) == [m.Dispatch(RequestId("s"), plan.hash)]


def test_a_wanted_ring_loads_without_any_request() -> None:
    state = cluster()
    effects = state.step(m.RingWanted(model(), WISH), 0.0)
    bring_up(state, effects, 1.0)
    assert state.snapshot().rings[0].state == "serving"


# ---------------------------------------------------------------- ends


def test_an_ended_request_is_unknown_afterwards() -> None:
    state, _ = serving(B)
    assert state.step(m.RequestEnded(R), 2.0) == []
    assert state.step(m.RequestEnded(R), 2.0) == state.step(m.RequestCancelled(R), 2.0) == []
    assert not of_kind(state.step(m.Ticked(), 5000.0), m.FailRequest, m.CancelAtHead)


def test_cancelling_a_running_request_tells_the_head_and_a_waiting_one_just_leaves() -> None:
    state, plan = serving(B)
    assert state.step(m.RequestCancelled(R), 2.0) == [m.CancelAtHead(R, plan.hash)]
    waiting = cluster()
    effects = waiting.step(arrival("r"), 0.0)
    assert waiting.step(m.RequestCancelled(R), 0.5) == []
    assert not of_kind(bring_up(waiting, effects, 1.0), m.Dispatch)


def test_deadlines_end_waiting_and_running_requests() -> None:
    state, plan = serving(B)
    state.step(m.RequestEnded(R), 2.0)
    state.step(arrival("runs", deadline=10.0), 2.0)
    state.step(arrival("waits", model("slow"), deadline=10.0), 2.0)
    assert not failures(state.step(m.Ticked(), 9.9))
    effects = state.step(m.Ticked(), 10.0)
    assert {name: type(error) for name, error in failures(effects).items()} == {
        "runs": DeadlinePassed,
        "waits": DeadlinePassed,
    }
    assert of_kind(effects, m.CancelAtHead) == [m.CancelAtHead(RequestId("runs"), plan.hash)]


def test_a_request_that_does_not_wait_for_its_model_is_told_how_far_it_is_and_loading_goes_on() -> None:
    state = cluster(B)
    started = of_kind(state.step(arrival("r", wait_until=2.0), 0.0), m.StartShard)
    plan = started[0].plan
    for stage, _ in enumerate(plan.stages):
        state.step(m.ShardMadeProgress(plan.hash, stage, 0.25), 1.0)
    assert not failures(state.step(m.Ticked(), 1.9))
    error = failures(state.step(m.Ticked(), 2.0))["r"]
    assert isinstance(error, ModelLoading)
    assert "25% of its weights are there, about 6 s more" in str(error)
    assert error.retry_after_s == 6.0
    assert state.snapshot().queue.waiting == 0
    bring_up(state, started, 8.0)
    assert of_kind(state.step(arrival("again", wait_until=8.0), 8.0), m.Dispatch), "it serves by now"


def test_one_that_cannot_wait_at_all_is_told_at_once_and_yet_begins_the_loading() -> None:
    state = cluster(B)
    effects = state.step(arrival("r", wait_until=0.0), 0.0)
    assert isinstance(failures(effects)["r"], ModelLoading)
    assert of_kind(effects, m.StartShard)


def test_a_model_that_cannot_be_placed_is_not_said_to_be_loading() -> None:
    state = cluster(B)
    effects = state.step(arrival("r", model(layers=40, layer=GB), wait_until=0.0), 0.0)
    assert isinstance(failures(effects)["r"], ModelDoesNotFit)


def test_a_full_queue_refuses_the_next_request_only() -> None:
    state = cluster()
    for number in range(QUEUE_MAX):
        assert not failures(state.step(arrival(str(number)), 0.0))
    assert isinstance(failures(state.step(arrival("more"), 0.0))["more"], Busy)
    assert state.snapshot().queue.waiting == QUEUE_MAX


def test_an_id_that_is_in_the_table_already_changes_nothing() -> None:
    state, _ = serving(B)
    assert state.step(arrival("r", model("other")), 2.0) == []


def test_a_model_that_does_not_fit_fails_the_request_with_the_numbers() -> None:
    state = cluster(B)
    effects = state.step(arrival("r", model(layers=40, layer=GB)), 0.0)
    assert isinstance(failures(effects)["r"], ModelDoesNotFit)
    assert "short by 20.0 GB" in str(failures(effects)["r"])
    assert state.snapshot().rings == ()


def test_a_wrong_wish_fails_the_request_naming_the_field() -> None:
    wish = m.PlanWish(1000, layers=(("nobody", 0, 10),))
    error = failures(cluster().step(arrival("r", wish=wish), 0.0))["r"]
    assert isinstance(error, BadRequest)
    assert error.param == "layers"


# ---------------------------------------------------------------- memory


def test_memory_promised_to_a_loading_shard_is_not_promised_again() -> None:
    state = cluster()
    state.step(arrival("r", model("first", layer=GB // 10 * 6)), 0.0)
    state.step(m.NodeReported(ME.node, ME.memory_free_bytes), 0.1)
    second = arrival("s", model("second", layer=GB // 10 * 6))
    assert "has 4.0 GB free: short by 2.0 GB" in str(failures(state.step(second, 0.2))["s"])


def test_the_memory_of_a_dropped_ring_is_free_for_the_next_plan_at_once() -> None:
    big = model(layers=10, layer=GB)
    state = cluster(B, C)
    effects = state.step(arrival("r", big, TWO), 0.0)
    bring_up(state, effects, 1.0)
    plan = planned(effects)
    left = next(profile for profile in (ME, B, C) if profile.node == plan.stages[0].node)
    used = replace(left, memory_free_bytes=left.memory_free_bytes - 5 * GB, memory_held_bytes=5 * GB)
    state.step(m.NodeReported(left.node, used.memory_free_bytes, profile=used), 2.0)
    state.step(m.NodeLost(plan.stages[1].node, "off"), 3.0)
    again = state.step(arrival("s", big, TWO), 3.1)
    assert {stage.node for stage in planned(again).stages} == {ME.node, C.node}
    assert planned(again).hash != plan.hash


# ---------------------------------------------------------------- losses


def test_a_dead_shard_fails_the_running_requests_before_the_ring_is_closed() -> None:
    state, plan = serving(B)
    effects = state.step(m.ShardDied(plan.hash, 1, "signal 9"), 2.0)
    assert [type(effect) for effect in effects] == [m.FailRequest, m.CloseRing, m.Tell]
    error = failures(effects)["r"]
    assert isinstance(error, RingLost)
    assert "layers 5-9 on b died: signal 9" in str(error)
    assert "The ring is being brought up again." in str(error)


def test_a_request_that_comes_while_the_ring_is_brought_up_again_waits_and_runs() -> None:
    state, plan = serving(B)
    state.step(m.ShardDied(plan.hash, 1, "x"), 2.0)
    assert state.step(arrival("s"), 2.1) == []
    effects = state.step(m.Ticked(), 2.6)
    assert of_kind(effects, m.StartShard) == [m.StartShard(B.node, plan, 1)]
    assert m.Dispatch(RequestId("s"), plan.hash) in bring_up(state, effects, 3.0)


def test_a_lost_node_drops_the_plan_and_the_next_request_goes_to_those_that_are_left() -> None:
    state, plan = serving(B)
    effects = state.step(m.NodeLost(B.node, "no heartbeat"), 2.0)
    error = str(failures(effects)["r"])
    assert "node b is gone with layers 5-9 of tiny (no heartbeat)" in error
    assert "What comes next goes to the nodes that are left" in error
    assert m.CloseRing(plan.hash) in effects
    assert not of_kind(effects, m.StopShard, m.StartShard), "the shard that is left waits for the next plan"
    again = state.step(arrival("s", wish=TWO), 3.0)
    assert {stage.node for stage in planned(again).stages} == {ME.node}


def test_a_request_that_waits_when_the_node_is_lost_is_placed_anew_in_the_same_step() -> None:
    state = cluster(B)
    old = planned(state.step(arrival("r", wish=TWO), 0.0))
    effects = state.step(m.NodeLost(B.node, "off"), 1.0)
    assert planned(effects).hash != old.hash
    assert m.Dispatch(R, planned(effects).hash) in bring_up(state, effects, 2.0)


def test_late_words_about_a_dropped_plan_change_nothing() -> None:
    state, plan = serving(B)
    state.step(m.NodeLost(B.node, "off"), 2.0)
    before = state.snapshot()
    for event in (
        m.ShardBecameReady(plan.hash, 0, "x", 1, 1),
        m.ShardMadeProgress(plan.hash, 0, 0.5),
        m.ShardDied(plan.hash, 0, "stopped"),
        m.RingLinked(plan.hash, 1),
        m.RingBroke(plan.hash, 1, "closed"),
        m.NodeReported(B.node, 5),
        m.NodeLost(B.node, "again"),
    ):
        assert state.step(event, 3.0) == []
    assert state.snapshot() == before


def test_a_node_that_joins_again_without_having_left_has_lost_its_shards() -> None:
    state, plan = serving(B)
    effects = state.step(m.NodeJoined(B), 2.0)
    assert isinstance(failures(effects)["r"], RingLost)
    assert m.CloseRing(plan.hash) in effects
    assert len(state.snapshot().nodes) == 2


def test_the_master_cannot_lose_itself() -> None:
    state, _ = serving(B)
    assert state.step(m.NodeLost(ME.node, "?"), 2.0) == []
    assert state.step(m.NodeJoined(ME), 2.0) == []


def test_a_ring_that_fails_five_times_fails_its_requests_and_is_tried_again_after_the_cool_down() -> None:
    state = cluster()
    now = 0.0
    effects = state.step(arrival("r"), now)
    for _ in range(FAILURES_MAX):
        assert not failures(effects)
        effects = state.step(m.ShardDied(_plan_of(state), 0, "file missing"), now)
        now += BACKOFF_MAX_S
        if not failures(effects):
            state.step(m.Ticked(), now)
    assert "file missing" in str(failures(effects)["r"])
    at_once = state.step(arrival("s"), now - BACKOFF_MAX_S + 1)
    assert isinstance(failures(at_once)["s"], RingLost)
    state.step(m.Ticked(), now + COOL_DOWN_S)
    assert planned(state.step(arrival("t"), now + COOL_DOWN_S))


def test_a_model_that_cannot_be_loaded_fails_its_requests_at_once_with_the_reason() -> None:
    state = cluster(B)
    plan = planned(state.step(arrival("r", wish=TWO), 0.0))
    effects = state.step(m.ShardDied(plan.hash, 1, "tensor x is missing", permanent=True), 1.0)
    error = failures(effects)["r"]
    assert isinstance(error, ModelFault)
    assert "on b cannot be loaded: tensor x is missing" in str(error)
    assert of_kind(effects, m.StopShard) == [m.StopShard(ME.node, plan.hash, 0)]
    assert isinstance(failures(state.step(arrival("s", wish=TWO), 2.0))["s"], ModelFault)
    for now in range(3, 300):
        assert not of_kind(state.step(m.Ticked(), float(now)), m.StartShard)
    assert planned(state.step(arrival("t", wish=TWO), 300.0)), "the files may have been mended"


def _plan_of(state: Leadership) -> PlanHash:
    plan = state.snapshot().rings[0].plan
    assert plan is not None
    return plan


def test_a_standing_wish_is_tried_until_the_node_that_it_needs_is_here() -> None:
    state = cluster()
    wish = m.PlanWish(1000, layers=(("me", 0, 5), ("b", 5, 10)))
    effects = state.step(m.RingWanted(model(), wish), 0.0)
    assert [type(effect) for effect in effects] == [m.Tell]
    assert state.step(m.Ticked(), 10.0) == [], "told once"
    assert state.step(m.NodeJoined(B), 10.1)
    assert len(of_kind(state.step(m.Ticked(), 10.2), m.StartShard)) == 2


def test_a_standing_wish_is_placed_anew_after_its_node_is_lost() -> None:
    state = cluster(B)
    bring_up(state, state.step(m.RingWanted(model(), TWO), 0.0), 1.0)
    state.step(m.NodeLost(B.node, "off"), 2.0)
    assert not of_kind(state.step(m.Ticked(), 2.0 + RETURN_S - 0.1), m.StartShard), "its link may only flicker"
    assert len(of_kind(state.step(m.Ticked(), 2.0 + RETURN_S), m.StartShard)) == 2


# ---------------------------------------------------------------- anything at all

NODES = st.sampled_from([ME.node, B.node, C.node, NodeId("nobody")])
MODELS = st.sampled_from([model("x"), model("y", layers=1), model("z", layers=40, layer=GB)])
REQUESTS = st.sampled_from([RequestId(name) for name in "rst"])
WISHES = st.builds(
    m.PlanWish,
    st.integers(-1, 5000),
    st.integers(1, 3),
    st.none() | st.integers(-1, 12),
    st.lists(st.tuples(st.sampled_from(["me", "b", "?"]), st.integers(-1, 11), st.integers(-1, 11)), max_size=2).map(
        tuple
    ),
)
PROFILES = st.builds(
    m.NodeProfile, NODES, st.sampled_from(["me", "b", ""]), st.just(""), st.just(""), st.integers(), st.integers()
)
NUMBERS = st.integers(-2, 9)


def anything(plans: st.SearchStrategy[PlanHash]) -> st.SearchStrategy[m.Event]:
    text = st.text(max_size=3)
    return st.one_of(
        st.builds(m.NodeJoined, PROFILES | st.sampled_from([B, C])),
        st.builds(m.NodeReported, NODES, st.integers()),
        st.builds(m.NodeLost, NODES, text),
        st.builds(m.RingWanted, MODELS, WISHES),
        st.builds(m.ShardBecameReady, plans, NUMBERS, text, st.integers(), st.integers()),
        st.builds(m.ShardMadeProgress, plans, NUMBERS, st.floats()),
        st.builds(m.ShardDied, plans, NUMBERS, text, st.booleans()),
        st.builds(m.RingLinked, plans, NUMBERS),
        st.builds(m.RingBroke, plans, NUMBERS, text, st.none() | NUMBERS),
        st.builds(m.RequestArrived, REQUESTS, MODELS, WISHES, st.floats()),
        st.builds(m.RequestEnded, REQUESTS),
        st.builds(m.RequestCancelled, REQUESTS),
        st.just(m.Ticked()),
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_sequence_of_events_makes_it_raise(data: st.DataObject) -> None:
    state = cluster(B)
    now = 0.0
    plans = [PlanHash("unknown")]
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.sampled_from([0.0, 0.1, 1.0, 40.0, 700.0]))
        effects = state.step(data.draw(anything(st.sampled_from(plans))), now)
        plans += [effect.plan.hash for effect in effects if isinstance(effect, m.StartShard)]
        if data.draw(st.booleans()):
            bring_up(state, effects, now)
        shot = state.snapshot()
        assert shot.queue.waiting + shot.queue.running <= 3
        assert {ring.model for ring in shot.rings} <= {ModelId(name) for name in "xyz"}
