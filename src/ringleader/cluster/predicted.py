"""What a ring will serve, computed from the same times as the plan itself; the model is timing.py's.

At the start of a context: what attention reads of a long one comes on top, as on a single Mac.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringleader.cluster.timing import PS, Pace, PacedNode
from ringleader.values import ModelCosts


@dataclass(frozen=True, slots=True)
class Predicted:
    """`tokens_per_s` of one stream alone; `aggregate_tokens_per_s` of `in_flight` streams together.

    `stage_s[i]` is stage i's own time for a token, `hop_s[i]` the way from stage i to the next one (of the last:
    back to the first); empty for one shard alone.
    """

    tokens_per_s: float
    aggregate_tokens_per_s: float
    in_flight: int
    stage_s: tuple[float, ...]
    hop_s: tuple[float, ...]

    @property
    def token_s(self) -> float:
        return 1 / self.tokens_per_s

    @property
    def slowest_s(self) -> float:
        """The time of the slowest stage: what bounds the aggregate, however many streams there are."""
        return max(self.stage_s)


def predict(costs: ModelCosts, placed: Sequence[tuple[PacedNode, int, int]], streams: int) -> Predicted:
    """The ring of these (node, start, stop). It is taken to be full: at least one stream for each stage.

    Shards on one node compute in turn: the node is what is busy, not the shard.
    """
    pace = Pace(costs, [node for node, _, _ in placed])
    order = list(range(len(placed)))
    stages = [pace.stage(place, start, stop) for place, (_, start, stop) in enumerate(placed)]
    hops = pace.between(order)
    busy: dict[str, int] = {}
    for (node, _, _), time in zip(placed, stages, strict=True):
        busy[node.node] = busy.get(node.node, 0) + time
    whole, in_flight = sum(stages) + sum(hops), max(streams, len(placed))
    return Predicted(
        tokens_per_s=PS / whole,
        aggregate_tokens_per_s=min(PS / max(busy.values()), in_flight * PS / whole),
        in_flight=in_flight,
        stage_s=tuple(time / PS for time in stages),
        hop_s=tuple(time / PS for time in hops),
    )
