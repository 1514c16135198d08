from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.state import ClusterState
from ringleader.node.telemetry import RingMeter
from ringleader.node.view import View
from ringleader.values import ModelId
from tests.unit.cluster.builders import arrival, bring_up, model, node

ME, B = node("me"), node("b")


def seen(state: ClusterState, meters: dict[ModelId, RingMeter] | None = None) -> Any:
    """The view as a client gets it."""
    return json.loads(json.dumps(View("home", state, meters or {}).cluster()))


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState(ME)
    state.step(m.NodeJoined(B), time.monotonic())
    return state


def test_a_cluster_without_a_ring_shows_its_nodes_and_an_empty_queue(state: ClusterState) -> None:
    view = seen(state)
    assert (view["name"], view["master"], view["rings"]) == ("home", ME.node, [])
    assert view["queue"]["waiting"] == view["queue"]["running"] == 0 < view["queue"]["max"]
    assert [(n["name"], n["state"], n["is_master"]) for n in view["nodes"]] == [("me", "ok", True), ("b", "ok", False)]
    assert view["uptime_s"] >= 0


def test_a_serving_ring_is_called_ready_and_shows_its_stages_and_what_it_did(state: ClusterState) -> None:
    now = time.monotonic()
    bring_up(state, state.step(arrival("r", wish=m.PlanWish(1000, shards=2), deadline=now + 60), now), now)
    meter = RingMeter()
    meter.count(8, 2)
    meter.requests = 3
    (ring,) = seen(state, {ModelId("tiny"): meter})["rings"]
    assert (ring["model"], ring["state"], ring["epoch"], ring["running"], ring["waiting"]) == ("tiny", "ready", 1, 1, 0)
    stages = [(s["name"], s["first_layer"], s["last_layer"], s["state"], s["pid"]) for s in ring["stages"]]
    assert stages == [("me", 0, 4, "ready", 7), ("b", 5, 9, "ready", 7)]
    assert (ring["served_requests"], ring["served_tokens"], ring["passes_per_token"]) == (3, 8, 0.25)


def test_a_broken_ring_says_why_and_a_dead_shard_has_no_pid(state: ClusterState) -> None:
    now = time.monotonic()
    bring_up(state, state.step(m.RingWanted(model(), m.PlanWish(1000, shards=2)), now), now)
    plan = state.snapshot().rings[0].plan
    assert plan is not None
    state.step(m.ShardDied(plan, 1, "signal SIGKILL"), now)
    (ring,) = seen(state)["rings"]
    assert ring["state"] == "broken"
    assert "signal SIGKILL" in ring["why"]
    assert ring["stages"][1]["pid"] is None
    assert ring["served_requests"] == 0
    assert ring["passes_per_token"] is None


def test_a_lost_node_stays_in_sight_with_the_reason(state: ClusterState) -> None:
    state.step(m.NodeLost(B.node, "its connection ended"), time.monotonic())
    lost = seen(state)["nodes"][1]
    assert (lost["state"], lost["detail"], lost["memory_free_bytes"]) == ("lost", "its connection ended", 0)


def test_events_are_dated_by_the_wall(state: ClusterState) -> None:
    before = time.time()
    state.step(m.NodeLost(B.node, "off"), time.monotonic())
    event = seen(state)["events"][-1]
    assert "node b is gone" in event["text"]
    assert before - 1 <= event["at"] <= time.time() + 1


def test_a_node_that_runs_is_healthy(state: ClusterState) -> None:
    assert View("home", state, {}).health()["status"] == "ok"
