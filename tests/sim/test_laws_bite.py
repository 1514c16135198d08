"""Rules broken on purpose: a checker that never caught anything proves nothing."""

from __future__ import annotations

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.rollout import Rollout
from ringleader.errors import RingLost
from tests.sim.laws import LawBroken
from tests.sim.world import World


class DispatchesBeforeLinking(Leadership):
    def _settle(self, rollout: Rollout, now: float) -> list[m.Effect]:
        effects = super()._settle(rollout, now)
        ring = rollout.ring
        if ring is not None and ring.state == "linking":
            effects += [m.Dispatch(r.request, ring.plan.hash) for r in self._requests.waiting(rollout.model)]
        return effects


class ForgetsRequestsOfABrokenRing(Leadership):
    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        effects = super().step(event, now)
        return [e for e in effects if not (isinstance(e, m.FailRequest) and isinstance(e.error, RingLost))]


class StartsEveryShardTwice(Leadership):
    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        effects = super().step(event, now)
        return effects + [e for e in effects if isinstance(e, m.StartShard)]


class ForgetsWhatItPromised(Leadership):
    def __init__(self, me: m.NodeProfile) -> None:
        super().__init__(me)
        self._placement._promised = lambda without=(): []  # type: ignore[method-assign]  # broken on purpose


class ForgetsDeadlines(Leadership):
    def _ticked(self, now: float) -> list[m.Effect]:
        self._requests.overdue = lambda now: []  # type: ignore[method-assign]  # broken on purpose
        return super()._ticked(now)


class EndsTwice(Leadership):
    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        effects = super().step(event, now)
        return effects + [e for e in effects if isinstance(e, m.FailRequest)]


class NeverTriesAgain(Leadership):
    def _ticked(self, now: float) -> list[m.Effect]:
        for rollout in self._rollouts.values():
            if rollout.ring is not None:
                rollout.ring.retry_at = now + 1000
        return super()._ticked(now)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (DispatchesBeforeLinking, "does not serve"),
        (ForgetsRequestsOfABrokenRing, "still runs on a ring that is lost"),
        (StartsEveryShardTwice, "is started while it lives"),
        (ForgetsWhatItPromised, "the plans do not fit"),
        (ForgetsDeadlines, "lives past its deadline"),
        (EndsTwice, "ends a second time"),
        (NeverTriesAgain, "was not answered when all was well"),
    ],
)
def test_a_broken_rule_is_caught_with_seed_and_trace(broken: type[Leadership], law: str) -> None:
    with pytest.raises(LawBroken, match=rf"seed \d+ at .*{law}[^\n]*\n +\d+\.\d\d  "):
        for seed in range(100):
            World(seed, broken).run()
