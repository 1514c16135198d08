from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import TELLS_MAX, Leadership
from ringleader.cluster.requests import QUEUE_MAX
from ringleader.values import LayerRange
from tests.unit.cluster.builders import MB, arrival, bring_up, model, node

ME, B = node("me"), node("b")


def test_a_snapshot_shows_nodes_ring_shards_queue_and_decisions() -> None:
    state = Leadership(ME)
    state.step(m.NodeJoined(B), 1.0)
    effects = state.step(arrival("r", wish=m.PlanWish(1000, shards=2)), 2.0)
    plan = next(e.plan for e in effects if isinstance(e, m.StartShard))
    state.step(m.ShardMadeProgress(plan.hash, 1, 0.25), 3.0)
    state.step(m.ShardBecameReady(plan.hash, 0, "host:9", 77, 4242), 4.0)
    shot = state.snapshot()
    assert [(n.name, n.state) for n in shot.nodes] == [("me", "master"), ("b", "ok")]
    (ring,) = shot.rings
    assert (ring.model, ring.state, ring.plan, ring.layers) == ("tiny", "loading", plan.hash, 10)
    assert (ring.waiting, ring.running, ring.epoch) == (1, 0, 0)
    assert "2 shards as asked" in ring.why
    head, tail = ring.shards
    assert (head.node_name, head.layers, head.state, head.pid) == ("me", LayerRange(0, 5), "ready", 4242)
    assert (head.address, head.memory_bytes, head.planned_bytes) == ("host:9", 77, 500 * MB)
    assert (tail.node_name, tail.state, tail.progress, tail.pid) == ("b", "loading", 0.25, 0)
    assert (shot.queue.waiting, shot.queue.running, shot.queue.limit) == (1, 0, QUEUE_MAX)
    assert [tell.at for tell in shot.tells] == [1.0, 2.0]
    assert "tiny goes on me 0-4, b 5-9" in shot.tells[1].text


def test_a_snapshot_does_not_change_afterwards() -> None:
    state = Leadership(ME)
    effects = state.step(arrival("r"), 2.0)
    before = state.snapshot()
    bring_up(state, effects, 3.0)
    assert (before.rings[0].state, state.snapshot().rings[0].state) == ("loading", "serving")
    assert (before.rings[0].running, state.snapshot().rings[0].running) == (0, 1)


def test_a_lost_node_is_shown_with_the_reason() -> None:
    state = Leadership(ME)
    state.step(m.NodeJoined(B), 1.0)
    state.step(m.NodeLost(B.node, "no heartbeat for 5 s"), 2.0)
    row = state.snapshot().nodes[1]
    assert (row.name, row.state, row.detail) == ("b", "lost", "no heartbeat for 5 s")


def test_a_wish_that_cannot_be_met_is_shown_with_the_numbers() -> None:
    state = Leadership(ME)
    state.step(m.RingWanted(model(layers=200), m.PlanWish(1000)), 1.0)
    (ring,) = state.snapshot().rings
    assert (ring.state, ring.plan, ring.shards) == ("idle", None, ())
    assert "short by" in ring.detail


def test_only_the_latest_decisions_are_kept() -> None:
    state = Leadership(ME)
    for number in range(TELLS_MAX):
        state.step(m.NodeJoined(B), float(number))
    assert len(state.snapshot().tells) == TELLS_MAX
    assert state.snapshot().tells[-1].at == TELLS_MAX - 1
