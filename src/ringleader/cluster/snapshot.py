"""What the status page shows of the cluster's state: frozen rows, taken at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ringleader.cluster.nodes import NodeTable
from ringleader.cluster.requests import QUEUE_MAX, RequestTable
from ringleader.cluster.rings import Ring, ShardState
from ringleader.cluster.rollout import Rollout
from ringleader.values import LayerRange, ModelId, NodeId, PlanHash


@dataclass(frozen=True, slots=True)
class NodeRow:
    """`memory_free_bytes` is as last reported; `detail` says why a lost node was lost."""

    node: NodeId
    name: str
    host: str
    chip: str
    memory_total_bytes: int
    memory_free_bytes: int
    state: Literal["master", "ok", "lost"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ShardRow:
    """`memory_bytes` is what the shard itself reported (0 until it is ready), `planned_bytes` what it may use."""

    index: int
    node: NodeId
    node_name: str
    layers: LayerRange
    state: ShardState
    progress: float
    pid: int
    address: str
    memory_bytes: int
    planned_bytes: int


@dataclass(frozen=True, slots=True)
class RingRow:
    """One model. Without a ring (`state` is "idle" or "resting") `plan` is None and there are no shards.

    `detail` says why it last broke or why there is no ring.
    """

    model: ModelId
    state: str
    plan: PlanHash | None
    why: str
    layers: int
    context_tokens: int
    epoch: int
    failures: int
    shards: tuple[ShardRow, ...]
    running: int
    waiting: int
    detail: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Requests over all models; `limit` bounds their sum."""

    waiting: int
    running: int
    limit: int


@dataclass(frozen=True, slots=True)
class TellRow:
    """A decision and when it was made, on the clock of `step`'s `now`."""

    at: float
    text: str
    model: ModelId | None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Oldest `tells` first."""

    me: NodeId
    nodes: tuple[NodeRow, ...]
    rings: tuple[RingRow, ...]
    queue: QueueRow
    tells: tuple[TellRow, ...]


def take_snapshot(
    nodes: NodeTable, rollouts: Iterable[Rollout], requests: RequestTable, tells: Iterable[TellRow]
) -> ClusterSnapshot:
    """Copies everything; the tables may change afterwards."""
    waiting, running = requests.counts()
    return ClusterSnapshot(
        nodes.me,
        tuple(_node_rows(nodes)),
        tuple(_ring_row(rollout, requests) for rollout in rollouts),
        QueueRow(waiting, running, QUEUE_MAX),
        tuple(tells),
    )


def _node_rows(nodes: NodeTable) -> Iterable[NodeRow]:
    for p in nodes.profiles():
        state: Literal["master", "ok"] = "master" if p.node == nodes.me else "ok"
        yield NodeRow(p.node, p.name, p.host, p.chip, p.memory_total_bytes, p.memory_free_bytes, state)
    for lost in nodes.lost():
        p = lost.profile
        yield NodeRow(p.node, p.name, p.host, p.chip, p.memory_total_bytes, 0, "lost", lost.reason)


def _ring_row(rollout: Rollout, requests: RequestTable) -> RingRow:
    ring = rollout.ring
    return RingRow(
        model=rollout.model,
        state=rollout.state,
        plan=ring.plan.hash if ring else None,
        why=ring.plan.why if ring else "",
        layers=ring.plan.layers if ring else 0,
        context_tokens=ring.plan.context_tokens if ring else 0,
        epoch=ring.epoch if ring else 0,
        failures=ring.failures if ring else rollout.refusals,
        shards=_shard_rows(ring) if ring else (),
        running=len(requests.running(rollout.model)),
        waiting=len(requests.waiting(rollout.model)),
        detail=ring.reason if ring else rollout.reason,
    )


def _shard_rows(ring: Ring) -> tuple[ShardRow, ...]:
    return tuple(
        ShardRow(
            shard.index,
            shard.stage.node,
            ring.name(shard.stage.node),
            shard.stage.layers,
            shard.state,
            shard.progress,
            shard.pid,
            shard.address,
            shard.memory_bytes,
            shard.stage.memory_bytes,
        )
        for shard in ring.shards
    )
