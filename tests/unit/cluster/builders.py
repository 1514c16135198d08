"""Nodes, models and requests in the sizes that the cluster's tests use. Each node's room is without the reserve."""

from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.plan import NODE_RESERVE_BYTES
from ringleader.values import ModelCosts, ModelId, NodeId, RequestId

MB = 10**6
GB = 10**9
WISH = m.PlanWish(context_tokens=1000)


def node(name: str, room: int = 10 * GB) -> m.NodeProfile:
    """A node on which a plan may use `room` bytes."""
    free = room + NODE_RESERVE_BYTES
    return m.NodeProfile(NodeId(f"{name}-id"), name, f"{name}.local", "M4", 2 * free, free)


def model(
    name: str = "tiny", layers: int = 10, layer: int = 100 * MB, ends: tuple[int, int] = (0, 0), kv: int = 0
) -> ModelCosts:
    """`layers` equal layers of `layer` bytes; `ends` are head and tail bytes, `kv` bytes a token a layer."""
    return ModelCosts(
        ModelId(name), "digest", "llama", (layer,) * layers, *ends, (kv,) * layers, hidden_size=64, context_max=100_000
    )


def arrival(
    name: str,
    costs: ModelCosts | None = None,
    wish: m.PlanWish = WISH,
    deadline: float = 1000.0,
    wait_until: float | None = None,
) -> m.RequestArrived:
    return m.RequestArrived(RequestId(name), costs or model(), wish, deadline, wait_until=wait_until)


def of_kind(effects: list[m.Effect], *kinds: type) -> list[m.Effect]:
    return [effect for effect in effects if isinstance(effect, kinds)]


def bring_up(state: Leadership, effects: list[m.Effect], now: float) -> list[m.Effect]:
    """Answer every StartShard and LinkRing among `effects` with success; returns all that follows."""
    after: list[m.Effect] = []
    for effect in effects:
        if isinstance(effect, m.StartShard):
            answer: m.Event = m.ShardBecameReady(effect.plan.hash, effect.index, f"{effect.node}:{effect.index}", 1, 7)
        elif isinstance(effect, m.LinkRing):
            answer = m.RingLinked(effect.plan, effect.epoch)
        else:
            continue
        follows = state.step(answer, now)
        after += [*follows, *bring_up(state, follows, now)]
    return after
