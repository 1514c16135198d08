"""Nodes that tell which models they hold get no shard of another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.nodes import can_hold
from ringleader.errors import ModelDoesNotFit, UnknownModel
from tests.unit.cluster.builders import arrival, model, node, of_kind

MINE = model()
ME, B = replace(node("me"), holds=()), replace(node("b"), holds=("another", MINE.digest))


def started_on(effects: list[m.Effect]) -> list[str]:
    return [effect.node for effect in effects if isinstance(effect, m.StartShard)]


def test_a_model_goes_where_its_files_are_and_the_plan_says_who_lacks_them() -> None:
    state = Leadership(ME)
    state.step(m.NodeJoined(B), 1.0)
    effects = state.step(arrival("r", MINE, m.PlanWish(1000, shards=2)), 2.0)
    assert started_on(effects) == [B.node, B.node]
    assert "Without its files: me" in state.snapshot().rings[0].why


def test_where_nobody_has_them_the_request_is_refused_with_what_to_do() -> None:
    state = Leadership(ME)
    (failed,) = of_kind(state.step(arrival("r", MINE), 1.0), m.FailRequest)
    assert isinstance(failed, m.FailRequest)
    assert isinstance(failed.error, UnknownModel)
    assert "ringleader models pull tiny" in str(failed.error)


def test_what_does_not_fit_where_its_files_are_says_who_else_could_fetch_them() -> None:
    big = model(layers=150)
    state = Leadership(ME)
    state.step(m.NodeJoined(replace(B, holds=(big.digest,))), 1.0)
    (failed,) = of_kind(state.step(arrival("r", big), 2.0), m.FailRequest)
    assert isinstance(failed, m.FailRequest)
    assert isinstance(failed.error, ModelDoesNotFit)
    assert "so not counted: me; there: ringleader models pull tiny" in str(failed.error)


def test_a_standing_wish_is_met_when_somebody_brings_the_files() -> None:
    state = Leadership(ME)
    assert not started_on(state.step(m.RingWanted(MINE, m.PlanWish(1000)), 1.0))
    effects = state.step(m.NodeJoined(B), 2.0)
    for tick in range(100):
        effects += state.step(m.Ticked(), 2.0 + tick / 10)
    assert started_on(effects) == [B.node]


@pytest.mark.parametrize(
    ("holds", "wish", "reference", "able"),
    [
        (None, m.PlanWish(1000), "", True),
        ((), m.PlanWish(1000), "tiny", False),
        ((), m.PlanWish(1000), "/models/tiny", True),
        ((), m.PlanWish(1000, layers=(("me", 0, 10),)), "", True),
        ((MINE.digest,), m.PlanWish(1000), "", True),
    ],
)
def test_who_does_not_tell_a_path_and_layers_placed_by_hand_are_given_the_benefit_of_the_doubt(
    holds: tuple[str, ...] | None, wish: m.PlanWish, reference: str, able: bool
) -> None:
    assert can_hold(replace(ME, holds=holds), m.RingWanted(MINE, wish, reference)) is able
