"""When another plan is worth the move: loading weights costs minutes, so a little faster is not enough."""

from __future__ import annotations

from ringleader.cluster.plan import Plan

GAIN_MIN = 1.25  # of predicted tokens a second: below it the forecast's own error may be the whole gain
LOOK_AFTER_S = 10.0  # after a node joined: one that flaps is gone again, one that starts is measured by then


def worth_moving(old: Plan, new: Plan) -> bool:
    """Whether the planner predicts so much more of `new` that the ring should move to it."""
    if old.stages == new.stages:
        return False
    before, after = _tokens_per_s(old), _tokens_per_s(new)
    return before is not None and after is not None and after >= before * GAIN_MIN


def _tokens_per_s(plan: Plan) -> float | None:
    """As predicted when the plan was made; None where it was not."""
    predicted = getattr(plan, "predicted", None)
    figure = getattr(predicted, "tokens_per_s", None)
    return float(figure) if figure else None
