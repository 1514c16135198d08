from __future__ import annotations

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.plan import Plan, make_plan
from ringleader.cluster.rings import (
    BACKOFF_MAX_S,
    FAILURES_MAX,
    HEALTHY_AFTER_S,
    LINK_DEADLINE_S,
    LOAD_DEADLINE_S,
    LOAD_STALL_S,
    STOP_DEADLINE_S,
    Ring,
    backoff_s,
)
from tests.unit.cluster.builders import GB, model, node, of_kind

A, B = node("a"), node("b")
PLAN = make_plan(model(), [A, B], m.PlanWish(1000, shards=2))


def new_ring(plan: Plan = PLAN) -> Ring:
    return Ring(plan, {A.node: "a", B.node: "b"}, 0.0)


def ready(ring: Ring, index: int, now: float) -> list[m.Effect]:
    return ring.shard_ready(m.ShardBecameReady(ring.plan.hash, index, f"host:{index}", 5, 100 + index), now)


def died(ring: Ring, index: int, now: float) -> list[m.Effect]:
    return ring.shard_died(m.ShardDied(ring.plan.hash, index, "signal 9."), now)


def linked(ring: Ring, epoch: int, now: float) -> list[m.Effect]:
    return ring.linked(m.RingLinked(ring.plan.hash, epoch), now)


def serving_ring(now: float = 0.0) -> Ring:
    ring = new_ring()
    ring.start(now)
    ready(ring, 0, now)
    ready(ring, 1, now)
    linked(ring, 1, now)
    assert ring.state == "serving"
    return ring


def test_a_ring_starts_its_shards_links_them_in_order_and_serves() -> None:
    ring = new_ring()
    assert ring.start(1.0) == [m.StartShard(A.node, PLAN, 0), m.StartShard(B.node, PLAN, 1)]
    assert ready(ring, 1, 2.0) == []
    assert ready(ring, 0, 3.0) == [m.LinkRing(PLAN.hash, 1, ("host:0", "host:1"))]
    assert ring.state == "linking"
    (tell,) = linked(ring, 1, 4.0)
    assert ring.state == "serving"
    assert isinstance(tell, m.Tell)
    assert "a 0-4, b 5-9" in tell.text


def test_only_the_dead_shard_is_started_again_and_the_epoch_grows() -> None:
    ring = serving_ring()
    effects = died(ring, 1, 10.0)
    assert of_kind(effects, m.CloseRing) == [m.CloseRing(PLAN.hash)]
    assert ring.reason == "the shard with layers 5-9 on b died: signal 9"
    assert ring.tick(10.4) == []
    assert ring.tick(10.5) == [m.StartShard(B.node, PLAN, 1)]
    assert ready(ring, 1, 11.0) == [m.LinkRing(PLAN.hash, 2, ("host:0", "host:1"))]


def test_a_broken_link_keeps_every_shard() -> None:
    ring = serving_ring()
    assert of_kind(ring.broke(m.RingBroke(PLAN.hash, 1, "cut"), 10.0), m.CloseRing, m.StopShard, m.StartShard) == [
        m.CloseRing(PLAN.hash)
    ]
    assert ring.tick(10.5) == [m.LinkRing(PLAN.hash, 2, ("host:0", "host:1"))]


def test_a_shard_that_does_not_answer_is_stopped_and_started_anew_before_the_next_try() -> None:
    ring = serving_ring()
    ring.broke(m.RingBroke(PLAN.hash, 1, "no frame came back"), 10.0)
    assert ring.tick(10.5) == [m.LinkRing(PLAN.hash, 2, ("host:0", "host:1"))]
    effects = ring.broke(m.RingBroke(PLAN.hash, 2, "no answer", silent=1), 20.5)
    assert of_kind(effects, m.StopShard, m.CloseRing) == [m.StopShard(B.node, PLAN.hash, 1), m.CloseRing(PLAN.hash)]
    assert ring.tick(25.0) == [], "it is not gone yet"
    died(ring, 1, 25.1)
    assert ring.tick(25.2) == [m.StartShard(B.node, PLAN, 1)]
    assert ring.broke(m.RingBroke(PLAN.hash, 2, "late", silent=0), 25.3) == []


def test_words_of_another_epoch_or_out_of_turn_change_nothing() -> None:
    ring = serving_ring()
    assert ring.broke(m.RingBroke(PLAN.hash, 0, "late"), 1.0) == []
    assert linked(ring, 1, 1.0) == []
    assert ready(ring, 0, 1.0) == []
    assert died(ring, 7, 1.0) == died(ring, -1, 1.0) == []
    assert ring.state == "serving"
    ring.broke(m.RingBroke(PLAN.hash, 1, "cut"), 2.0)
    assert linked(ring, 1, 2.0) == []
    assert ring.broke(m.RingBroke(PLAN.hash, 1, "cut"), 2.0) == []
    assert ring.state == "broken"
    assert ring.failures == 1


def test_two_shards_that_die_together_are_one_failure_and_both_come_back() -> None:
    ring = serving_ring()
    died(ring, 0, 1.0)
    assert died(ring, 1, 1.1) == []
    assert ring.failures == 1
    assert len(of_kind(ring.tick(1.5), m.StartShard)) == 2


def test_the_backoff_doubles_up_to_its_bound() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 6, 7)] == [0.5, 1.0, 2.0, 16.0, BACKOFF_MAX_S]
    assert backoff_s(10_000) == BACKOFF_MAX_S


def test_five_failures_in_a_row_stop_everything() -> None:
    ring = new_ring()
    ring.start(0.0)
    ready(ring, 0, 0.0)
    now, effects = 0.0, []
    for _ in range(FAILURES_MAX):
        now += BACKOFF_MAX_S
        ring.tick(now)
        effects = died(ring, 1, now)
    assert ring.state == "failed"
    assert of_kind(effects, m.StopShard) == [m.StopShard(A.node, PLAN.hash, 0)]
    assert ring.tick(now + 1000) == []


def test_a_model_that_cannot_be_loaded_is_not_tried_again() -> None:
    ring = new_ring()
    ring.start(0.0)
    ready(ring, 0, 0.0)
    effects = ring.shard_died(m.ShardDied(PLAN.hash, 1, "tensor x is missing", permanent=True), 1.0)
    assert ring.state == "failed"
    assert ring.at_fault
    assert of_kind(effects, m.StopShard) == [m.StopShard(A.node, PLAN.hash, 0)]
    assert "layers 5-9 on b cannot be loaded: tensor x is missing" in ring.reason
    assert ring.tick(1000.0) == []


def test_a_minute_of_serving_forgives_the_failures_before() -> None:
    ring = serving_ring()
    ring.failures = FAILURES_MAX - 1
    ring.broke(m.RingBroke(PLAN.hash, 1, "cut"), HEALTHY_AFTER_S)
    assert (ring.state, ring.failures) == ("broken", 1)
    hasty = serving_ring()
    hasty.failures = FAILURES_MAX - 1
    hasty.broke(m.RingBroke(PLAN.hash, 1, "cut"), HEALTHY_AFTER_S - 1)
    assert hasty.state == "failed"


def test_a_shard_that_makes_no_progress_is_stopped_and_started_only_when_it_has_ended() -> None:
    ring = new_ring()
    ring.start(0.0)
    ready(ring, 0, 1.0)
    ring.shard_progress(m.ShardMadeProgress(PLAN.hash, 1, 0.3), 100.0)
    ring.shard_progress(m.ShardMadeProgress(PLAN.hash, 1, 0.3), 200.0)  # the same again is no progress
    assert ring.tick(100.0 + LOAD_STALL_S - 0.1) == []
    now = 100.0 + LOAD_STALL_S
    assert of_kind(ring.tick(now), m.StopShard) == [m.StopShard(B.node, PLAN.hash, 1)]
    assert "no progress for 120 s, at 30%" in ring.reason
    assert ring.tick(now + 5) == []
    assert died(ring, 1, now + 6) == []
    assert ring.tick(now + 6) == [m.StartShard(B.node, PLAN, 1)]


def test_a_shard_that_does_not_end_is_taken_for_dead_after_a_while() -> None:
    ring = new_ring()
    ring.start(0.0)
    ring.tick(LOAD_STALL_S)
    assert ring.tick(LOAD_STALL_S + STOP_DEADLINE_S - 0.1) == []
    assert len(of_kind(ring.tick(LOAD_STALL_S + STOP_DEADLINE_S), m.StartShard)) == 2


@pytest.mark.parametrize(("layer_bytes", "allowed"), [(100, LOAD_DEADLINE_S), (20 * GB, 1000.0)])
def test_loading_has_an_end_that_grows_with_big_shards(layer_bytes: int, allowed: float) -> None:
    ring = new_ring(make_plan(model(layers=5, layer=layer_bytes), [node("a", 200 * GB)], m.PlanWish(1)))
    ring.start(0.0)
    for step in range(1, 100):
        ring.shard_progress(m.ShardMadeProgress(ring.plan.hash, 0, step / 100), allowed * step / 100)
    assert ring.tick(allowed - 1) == []
    ring.tick(allowed)
    assert ring.state == "broken"
    assert "was not ready" in ring.reason


def test_a_ring_that_does_not_link_in_time_is_broken() -> None:
    ring = new_ring()
    ring.start(0.0)
    ready(ring, 0, 1.0)
    ready(ring, 1, 1.0)
    assert ring.tick(1.0 + LINK_DEADLINE_S - 0.1) == []
    assert m.CloseRing(PLAN.hash) in ring.tick(1.0 + LINK_DEADLINE_S)
    assert ring.state == "broken"


def test_a_shard_holds_what_it_loaded_so_far_and_what_it_reports_when_ready() -> None:
    ring = new_ring()
    ring.start(0.0)
    ring.shard_progress(m.ShardMadeProgress(PLAN.hash, 0, 0.5), 1.0)
    assert ring.shards[0].resident_bytes == PLAN.stages[0].weight_bytes // 2
    ring.shard_ready(m.ShardBecameReady(PLAN.hash, 0, "x", 10 * GB, 1), 2.0)
    assert ring.shards[0].resident_bytes == 10 * GB
    died(ring, 0, 3.0)
    assert ring.shards[0].resident_bytes == 0
