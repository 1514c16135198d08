"""What clients see of the cluster: the master's own view on the master, and through any other node the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringleader.api.contracts import ModelCard
from ringleader.cluster import messages as m
from ringleader.errors import UnknownModel
from ringleader.node.telemetry import RingMeter
from ringleader.node.view import View
from ringleader.values import Json, ModelId, NodeId
from tests.security.clusters import make_cluster
from tests.unit.cluster.builders import arrival, model
from tests.unit.cluster.bus import Bus

A, B = NodeId("a-id"), NodeId("b-id")
TWO = m.PlanWish(1000, shards=2)
CARDS = [ModelCard(ModelId("tiny"), 5, True, 1000)]


class Shelf:
    """Holds the given cards."""

    def __init__(self, cards: list[ModelCard]) -> None:
        self._cards = cards

    async def cards(self) -> list[ModelCard]:
        return self._cards

    def find(self, model: ModelId) -> tuple[Path, str]:
        raise UnknownModel(f"{model} is not here", param="model")


class Mastership:
    """The way to the master: asks `others`' view, if there is one."""

    def __init__(self, master: NodeId | None, other: View | None = None) -> None:
        self.master = master
        self.other = other
        self.says: Json | None = None

    async def ask(self, question: str) -> Json | None:
        if self.other is None:
            return self.says
        return json.loads(await self.other.answer(json.dumps(question).encode()))


def view(bus: Bus, node: NodeId, mastership: Mastership | None = None, **more: Any) -> View:
    fakes: Any = (mastership or Mastership(B), Shelf(more.get("cards", CARDS)))
    leads, shelf = fakes
    return View(str(node)[0], bus.members[node], leads, shelf, more.get("meters", {}), more.get("credentials"))


async def seen(view: View) -> Any:
    """As a client gets it."""
    return json.loads(json.dumps(await view.cluster()))


@pytest.fixture
def bus() -> Bus:
    """Nodes a and b; b leads."""
    bus = Bus("a", "b")
    bus.now = time.monotonic() - 60
    bus.run(5)
    assert bus.leaders() == [B]
    return bus


def serve(bus: Bus) -> None:
    bus.tell(B, m.RingWanted(model(), TWO))
    bus.until(lambda: any(ring.state == "serving" for ring in bus.members[B].snapshot().rings), 3.0)


async def test_a_cluster_without_a_ring_shows_its_nodes_and_an_empty_queue(bus: Bus) -> None:
    shown = await seen(view(bus, B))
    assert (shown["name"], shown["node"], shown["master"], shown["term"], shown["rings"]) == ("b", B, B, 1, [])
    assert shown["queue"]["waiting"] == shown["queue"]["running"] == 0 < shown["queue"]["max"]
    nodes = [(node["name"], node["state"], node["is_master"]) for node in shown["nodes"]]
    assert nodes == [("b", "ok", True), ("a", "ok", False)]
    assert shown["uptime_s"] >= 0
    assert (shown["secure"], shown["cluster"]) == (False, None)


async def test_a_serving_ring_is_called_ready_and_shows_its_stages_and_what_it_did(bus: Bus) -> None:
    serve(bus)
    bus.tell(B, arrival("r", wish=TWO, deadline=bus.now + 60))
    meter = RingMeter()
    meter.count(8, 2)
    meter.requests = 3
    (ring,) = (await seen(view(bus, B, meters={ModelId("tiny"): meter})))["rings"]
    assert (ring["model"], ring["state"], ring["running"], ring["waiting"]) == ("tiny", "ready", 1, 0)
    stages = [(s["name"], s["first_layer"], s["last_layer"], s["state"], s["pid"]) for s in ring["stages"]]
    assert stages == [("b", 0, 4, "ready", 7), ("a", 5, 9, "ready", 7)]
    assert (ring["served_requests"], ring["served_tokens"], ring["passes_per_token"]) == (3, 8, 0.25)


async def test_a_shard_that_died_has_no_pid_and_its_ring_says_why(bus: Bus) -> None:
    serve(bus)
    plan = bus.members[B].snapshot().rings[0].plan
    assert plan is not None
    bus.members[B].step(m.ShardDied(plan, 0, "signal SIGKILL"), bus.now)
    shown = await seen(view(bus, B))
    (ring,) = shown["rings"]
    assert ring["state"] != "ready"
    assert ring["stages"][0]["pid"] is None
    assert any("signal SIGKILL" in event["text"] for event in shown["events"])


async def test_a_lost_node_stays_in_sight_with_the_reason(bus: Bus) -> None:
    del bus.members[A]
    bus.run(4)
    lost = (await seen(view(bus, B)))["nodes"][1]
    assert (lost["name"], lost["state"], lost["memory_free_bytes"]) == ("a", "lost", 0)
    assert lost["detail"]


async def test_events_are_dated_by_the_wall_and_keep_their_date(bus: Bus) -> None:
    shows = view(bus, B)
    first = (await seen(shows))["events"]
    assert {"master_elected"} <= {event["kind"] for event in first}
    assert all(time.time() - 61 <= event["at"] <= time.time() - 50 for event in first)
    assert (await seen(shows))["events"][: len(first)] == first


async def test_another_node_shows_the_master_s_view_under_its_own_name_with_both_events(
    bus: Bus, tmp_path: Path
) -> None:
    serve(bus)
    credentials = make_cluster(tmp_path).founder
    master = view(bus, B)
    shown = await seen(view(bus, A, Mastership(B, master), credentials=credentials))
    whole = await seen(master)
    assert (shown["name"], shown["node"], shown["secure"]) == ("a", A, True)
    assert shown["cluster"] == {"id": credentials.cluster, "name": "home"}
    for key in ("master", "term", "nodes", "rings", "queue"):
        assert shown[key] == whole[key]
    texts = [event["text"] for event in shown["events"]]
    assert "this node is master now, in term 1" in texts
    assert "b is master, in term 1" in texts
    assert [event["at"] for event in shown["events"]] == sorted(event["at"] for event in shown["events"])


@pytest.mark.parametrize("says", [None, [], "text", 5])
async def test_a_node_whose_master_does_not_answer_shows_what_it_hears_itself(bus: Bus, says: Json) -> None:
    silent = Mastership(B)
    silent.says = says
    shown = await seen(view(bus, A, silent))
    assert (shown["name"], shown["master"]) == ("a", B)
    assert {node["name"] for node in shown["nodes"]} == {"a", "b"}


async def test_the_models_are_those_that_the_master_answers_for(bus: Bus) -> None:
    other = ModelCard(ModelId("only here"), 1, False, None)
    master = view(bus, B)
    assert await view(bus, A, Mastership(B, master), cards=[other]).cards() == CARDS
    assert await view(bus, A, Mastership(None), cards=[other]).cards() == [other]
    assert await master.cards() == CARDS


@pytest.mark.parametrize("question", [b"", b"\xff", b'"unknown"', b"[" * 100_000, b"{}"])
async def test_any_question_has_an_answer_that_can_be_read(bus: Bus, question: bytes) -> None:
    json.loads(await view(bus, B).answer(question))


@pytest.mark.parametrize(("leads", "status"), [(lambda: Mastership(B), "ok"), (lambda: Mastership(None), "no master")])
def test_a_node_without_a_master_says_so_when_asked_for_its_health(
    bus: Bus, leads: Callable[[], Mastership], status: str
) -> None:
    assert view(bus, A, leads()).health()["status"] == status
