"""Whether a ring that serves should give way to a better plan. Rings are not moved for trifles."""

from __future__ import annotations

from typing import Literal

from ringleader.cluster.plan import Plan, Predicted
from ringleader.values import NodeId

GAIN_MIN = 1.15  # predictions and measurements are off by some per cent; what is less than this may be none
LOAD_BYTES_PER_S = 10**9  # from disk, or from a neighbour over 10-gigabit Ethernet
PAYBACK_S = 3600.0  # of serving, within which the ring must have won back the time that moving takes


def worth_moving(
    old: Plan,
    new: Plan,
    *,
    objective: Literal["latency", "throughput"] = "latency",
    old_now: Predicted | None = None,
) -> bool:
    """Whether to replace a ring that serves `old` by one of `new`, plans of the same model.

    It is worth it when the new one has room for longer or more requests, or when it is at least 15 % faster
    and wins back within an hour of serving what loading its missing layers costs. A plan that has lost a node
    needs no such question. `old_now` is what `plan.predicted_now` gives for the old plan; without it the old
    plan's own prediction counts, and without either nothing is moved for speed.
    """
    if (
        (new.digest, new.kv_bits, new.draft) != (old.digest, old.kv_bits, old.draft)
        or new.context_tokens > old.context_tokens
        or new.streams > old.streams
    ):
        return True
    if new.context_tokens < old.context_tokens or new.streams < old.streams:
        return False  # faster, but what is accepted today would be refused tomorrow
    before = old_now or old.predicted
    if before is None or new.predicted is None or _held(old) == _held(new):
        return False
    gain = _rate(new.predicted, objective) / _rate(before, objective)
    away_s = max(bytes_to_load(old, new).values(), default=0) / LOAD_BYTES_PER_S
    return gain >= GAIN_MIN and away_s <= PAYBACK_S * (1 - 1 / gain)


def bytes_to_load(old: Plan, new: Plan) -> dict[NodeId, int]:
    """For each node that must load something: the weights of `new` on it that it does not hold under `old`.

    A stage's layers are taken for equally heavy.
    """
    held = _held(old)
    missing: dict[NodeId, int] = {}
    for stage in new.stages:
        layers = range(stage.layers.start, stage.layers.stop)
        lacking = sum((stage.node, layer) not in held for layer in layers)
        if lacking:
            missing[stage.node] = missing.get(stage.node, 0) + stage.weight_bytes * lacking // len(layers)
    return missing


def _held(plan: Plan) -> set[tuple[NodeId, int]]:
    return {(s.node, layer) for s in plan.stages for layer in range(s.layers.start, s.layers.stop)}


def _rate(predicted: Predicted, objective: str) -> float:
    return predicted.aggregate_tokens_per_s if objective == "throughput" else predicted.tokens_per_s
