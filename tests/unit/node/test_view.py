"""`/v1/cluster` as a node makes it of what its machine believes and what the master told."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.cluster.timing import EFFICIENCY, Link
from ringleader.models.store import Store
from ringleader.node.mastership import Mastership
from ringleader.node.shelf import Shelf
from ringleader.node.telemetry import RingMeter
from ringleader.node.view import View
from ringleader.values import Json, ModelId, NodeId
from tests.unit.cluster.builders import model, node

ME = replace(node("me"), temperature_c=55.0, links=(Link(NodeId("b-id"), 0.0003, 5e8),))


@dataclass
class Told:
    """A mastership whose master answers so."""

    answer: Json | None = None
    master: NodeId | None = None

    async def ask(self, question: str) -> Json | None:
        return self.answer


@pytest.fixture
def member() -> Member:
    """It leads, and has placed a model."""
    member = Member(ME, 1)
    start = time.monotonic() - 6.0
    for tick in range(60):
        member.step(m.Ticked(), start + tick / 10)
    member.step(m.RingWanted(model(), m.PlanWish(1000)), start + 6.0)
    return member


def view(member: Member, path: Path, told: Told | None = None) -> View:
    meters = {ModelId("tiny"): RingMeter(last_tokens_per_s=12.345)}
    mastership = cast(Mastership, told or Told())
    return View("me", member, mastership, Shelf(Store(path), (), 100), meters, None)


async def test_nodes_tell_what_they_measured_and_where_they_did_not_what_their_chip_is_known_for(
    member: Member, tmp_path: Path
) -> None:
    (shown,) = (await view(member, tmp_path).cluster())["nodes"]
    assert (shown["host"], shown["temperature_c"]) == ("me.local", 55.0)
    assert shown["links"] == [{"to": "b-id", "latency_s": 0.0003, "bytes_per_s": 5e8}]
    assert (shown["bytes_per_s"], shown["measured_by"]) == (pytest.approx(120e9 * EFFICIENCY), "chip")
    member.step(m.NodeReported(ME.node, 10**10, profile=replace(ME, bytes_per_s=1e9, measured_by="memory")), 10.0**9)
    (shown,) = (await view(member, tmp_path).cluster())["nodes"]
    assert (shown["bytes_per_s"], shown["measured_by"]) == (1e9, "memory")
    member.step(m.NodeReported(ME.node, 10**10, profile=replace(ME, chip="unheard of")), 10.0**9)
    (shown,) = (await view(member, tmp_path).cluster())["nodes"]
    assert (shown["bytes_per_s"], shown["measured_by"]) == (None, None)


async def test_rings_tell_why_they_are_placed_so_and_how_fast_they_should_be_and_were(
    member: Member, tmp_path: Path
) -> None:
    (ring,) = (await view(member, tmp_path).cluster())["rings"]
    assert "me" in ring["plan_why"]
    assert ring["predicted"]["tokens_per_s"] > 0
    assert ring["last_tokens_per_s"] == 12.35
    assert json.dumps(ring)


async def test_an_event_keeps_its_moment_however_often_it_is_asked_for(member: Member, tmp_path: Path) -> None:
    mine = view(member, tmp_path)
    first = (await mine.cluster())["events"]
    assert (await mine.cluster())["events"] == first
    assert {"at", "kind", "model", "text", "node"} == set(first[0])
    assert first[0]["node"] == "me"
    assert abs(first[-1]["at"] - time.time()) < 5.0
    assert [event["kind"] for event in first][-1] == "plan_made"


async def test_a_node_that_does_not_lead_shows_the_masters_picture_and_both_their_events(
    member: Member, tmp_path: Path
) -> None:
    picture: dict[str, Any] = {
        "name": "a",
        "master": "a-id",
        "term": 9,
        "nodes": [],
        "rings": [],
        "events": [{"at": 1}],
    }
    shown = await view(member, tmp_path, Told(picture)).cluster()
    assert (shown["name"], shown["term"], shown["nodes"]) == ("me", 9, [])
    assert shown["events"][0] == {"at": 1}
    assert len(shown["events"]) > 1


@pytest.mark.parametrize("question", [b"", b"\xff", b"[" * 100_000, b'{"card": 7}'])
async def test_a_question_that_is_none_is_answered_with_nothing(
    member: Member, tmp_path: Path, question: bytes
) -> None:
    assert await view(member, tmp_path).answer(question) == b"null"
