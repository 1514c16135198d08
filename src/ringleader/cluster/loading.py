"""What a request is told that does not wait for its model to be loaded: how far it is, and when to come again."""

from __future__ import annotations

from ringleader.cluster.rings import Ring
from ringleader.cluster.rollout import Rollout
from ringleader.errors import ModelLoading

UNKNOWN_S = 5.0  # where nothing tells how long it takes
AGAIN_MAX_S = 60.0  # OpenAI's SDKs do not heed a longer one
KNOWN_FROM = 0.02  # of the weights: with less loaded, the rest cannot be told from it


def loading_error(rollout: Rollout, now: float) -> ModelLoading:
    """For a request whose ring does not serve at the moment `now`."""
    ring = rollout.ring
    if ring is None:
        why = f": {rollout.reason.rstrip('. ')}" if rollout.reason else ""
        return ModelLoading(
            f"{rollout.model} is not loaded yet{why}. Send the request again in some seconds.", retry_after_s=UNKNOWN_S
        )
    done, left_s = progress(ring), seconds_left(ring, now)
    state = f"is being brought up again ({ring.reason.rstrip('. ')})" if ring.reason else "is being loaded"
    left, when = ("", "in some seconds") if left_s is None else (f", about {left_s:.0f} s more", "then")
    return ModelLoading(
        f"{rollout.model} {state}: {done:.0%} of its weights are there{left}. Send the request again {when}.",
        retry_after_s=min(AGAIN_MAX_S, UNKNOWN_S if left_s is None else max(1.0, left_s)),
    )


def progress(ring: Ring) -> float:
    """How much of the ring's weights is in memory, 0 to 1."""
    whole = sum(shard.stage.weight_bytes for shard in ring.shards)
    return sum(shard.stage.weight_bytes * shard.progress for shard in ring.shards) / whole if whole else 0.0


def seconds_left(ring: Ring, now: float) -> float | None:
    """As long as the slowest shard needs if it goes on as it began; None while nothing tells."""
    left = [0.0]
    for shard in ring.shards:
        if shard.state == "ready":
            continue
        spent = now - shard.started
        if shard.state != "loading" or shard.progress < KNOWN_FROM or spent <= 0:
            return None
        left.append(spent * (1 - shard.progress) / shard.progress)
    return max(left)
