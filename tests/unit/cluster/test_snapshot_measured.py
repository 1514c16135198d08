from __future__ import annotations

from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.timing import Link
from tests.unit.cluster.builders import arrival, node

ME, B = node("me"), node("b")


def test_what_a_node_measured_of_itself_and_its_links_is_shown() -> None:
    links = (Link(ME.node, 0.0003, 5e8),)
    measured = replace(B, temperature_c=61.0, bytes_per_s=2e10, measured_by="memory", links=links)
    state = Leadership(ME)
    state.step(m.NodeJoined(measured), 1.0)
    row = state.snapshot().nodes[1]
    assert (row.temperature_c, row.bytes_per_s, row.measured_by, row.links) == (61.0, 2e10, "memory", links)


def test_a_ring_shows_what_its_plan_predicts() -> None:
    state = Leadership(ME)
    effects = state.step(arrival("r"), 1.0)
    plan = next(e.plan for e in effects if isinstance(e, m.StartShard))
    assert plan.predicted is not None
    assert state.snapshot().rings[0].predicted == plan.predicted
