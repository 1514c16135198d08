"""Rules of the whole cluster broken on purpose: each must be caught, with its seed and a trace that can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.adoption import Found
from ringleader.cluster.election import Election
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.member import Member
from ringleader.cluster.rings import Ring
from ringleader.cluster.rollout import Rollout
from tests.sim.cluster import Cluster
from tests.sim.laws import LawBroken

SEEDS = 150
Patch = pytest.MonkeyPatch


class ForgetsPersistedTerms(Member):
    def __init__(self, me: m.NodeProfile, incarnation: int, persisted_term: int = 0, **rest: Any) -> None:
        super().__init__(me, incarnation, 0, **rest)


class ObeysAnyTerm(Member):
    def _hear(self, event: m.Event, election: Election, now: float) -> list[m.Effect]:
        if isinstance(event, m.Heard) and not isinstance(event.word, m.Beat) and not election.leads:
            return self._obey(event.word, now)
        return super()._hear(event, election, now)


class SpeaksBeforeItPersists(Member):
    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        effects = super().step(event, now)
        return sorted(effects, key=lambda effect: isinstance(effect, m.PersistTerm))


class ForgetsItsRequestsWhenItStepsDown(Member):
    def _step_down(self, why: str) -> list[m.Effect]:
        return [effect for effect in super()._step_down(why) if not isinstance(effect, m.FailRequest)]


class EndsItsRequestsTwice(Member):
    def _step_down(self, why: str) -> list[m.Effect]:
        effects = super()._step_down(why)
        return effects + [effect for effect in effects if isinstance(effect, m.FailRequest)]


class DoesNotObeyWhatItHears(Member):
    def _obey(self, order: m.StartOrder | m.StopOrder, now: float) -> list[m.Effect]:
        return [] if isinstance(order, m.StartOrder) else super()._obey(order, now)


def restart_what_is_taken_over(patch: Patch) -> None:
    def see_off(self: Leadership, rollout: Rollout, found: Found, now: float) -> list[m.Effect]:
        self._placement.see_off(found, now)
        return [m.StopShard(node, found.plan, index) for index, (node, _) in found.shards.items()]

    patch.setattr(Leadership, "_take_over", see_off)


def link_in_the_old_epoch(patch: Patch) -> None:
    patch.setattr("ringleader.cluster.rings.first_epoch", lambda term: 0)


def forget_to_renew(patch: Patch) -> None:
    settle = Election.settle

    def without(self: Election, mutual: list[m.Beat], now: float) -> None:
        settle(self, [b for b in mutual if b.follows is not None] if self.leads else mutual, now)

    patch.setattr(Election, "settle", without)


def dispatch_before_it_serves(patch: Patch) -> None:
    patch.setattr(Rollout, "serves", property(lambda self: self.ring is not None and self.ring.state == "linking"))


def start_a_shard_once_and_for_all(patch: Patch) -> None:
    start = Ring.start
    patch.setattr(Ring, "start", lambda self, now: start(self, now) if self.state == "planned" else [])


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (ForgetsPersistedTerms, "two masters|the fence of"),
        (ObeysAnyTerm, "obeys Term"),
        (SpeaksBeforeItPersists, "before it is persisted"),
        (ForgetsItsRequestsWhenItStepsDown, "have not ended"),
        (EndsItsRequestsTwice, "ends a second time"),
        (DoesNotObeyWhatItHears, "was not answered when all was well"),
    ],
)
def test_a_node_that_breaks_a_rule_is_caught(broken: Callable[..., Member], law: str) -> None:
    assert_caught(broken, law)


@pytest.mark.parametrize(
    ("break_it", "law"),
    [
        (restart_what_is_taken_over, "because the master died"),
        (link_in_the_old_epoch, "has two masters"),
        (forget_to_renew, "of calm, and the nodes follow|was not answered"),
        (dispatch_before_it_serves, "does not serve"),
        (start_a_shard_once_and_for_all, "was not answered when all was well"),
    ],
)
def test_a_rule_of_the_master_that_is_broken_is_caught(
    break_it: Callable[[Patch], None], law: str, monkeypatch: Patch
) -> None:
    break_it(monkeypatch)
    assert_caught(Member, law)


def assert_caught(make: Callable[..., Member], law: str) -> None:
    with pytest.raises(LawBroken, match=rf"seed \d+ at .*({law})[^\n]*\n +\d+\.\d+ "):
        for seed in range(SEEDS):
            Cluster(seed, make).run()
