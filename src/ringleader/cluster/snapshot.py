"""What the status page shows of the cluster's state: frozen rows, taken at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from ringleader.cluster.messages import Beat, NodeProfile, ShardReport, TellKind, Term
from ringleader.cluster.nodes import NodeTable
from ringleader.cluster.predicted import Predicted
from ringleader.cluster.requests import QUEUE_MAX, RequestTable
from ringleader.cluster.rings import Ring, ShardState
from ringleader.cluster.rollout import Rollout
from ringleader.cluster.timing import Link
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
    state: Literal["master", "ok", "lost"]  # "ok" also of a node that follows nobody, or another
    detail: str = ""
    temperature_c: float | None = None
    bytes_per_s: float = 0.0
    measured_by: str = ""
    links: tuple[Link, ...] = ()


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

    `detail` says why it last broke or why there is no ring. `predicted` is by the figures that the plan was made with.
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
    predicted: Predicted | None = None
    kv_bits: int = 0
    draft_model: str = ""


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
    kind: TellKind = "note"


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Oldest `tells` first. `term` is what the node follows, its own when it leads, None without a master.

    A node that does not lead shows what beats tell it: no queue, no wishes, and of a ring only its shards.
    """

    me: NodeId
    nodes: tuple[NodeRow, ...]
    rings: tuple[RingRow, ...]
    queue: QueueRow
    tells: tuple[TellRow, ...]
    term: Term | None = None


def take_snapshot(
    nodes: NodeTable, rollouts: Iterable[Rollout], requests: RequestTable, tells: Iterable[TellRow]
) -> ClusterSnapshot:
    """Copies everything; the tables may change afterwards."""
    waiting, running = requests.counts()
    return ClusterSnapshot(
        nodes.me,
        tuple(_node_rows(nodes)),
        tuple(_ring_row(rollout, requests) for rollout in rollouts),
        QueueRow(waiting, running, requests.limit),
        tuple(tells),
    )


def take_member_snapshot(
    me: NodeProfile, term: Term | None, heard: list[Beat], own: tuple[ShardReport, ...], tells: Iterable[TellRow]
) -> ClusterSnapshot:
    """The same of a node that does not lead."""
    reports: dict[NodeId, tuple[ShardReport, ...]] = {me.node: own}
    reports.update({beat.profile.node: beat.shards for beat in heard})
    profiles = [me, *(beat.profile for beat in heard)]
    rings: dict[PlanHash, list[ShardReport]] = {}
    for report in chain.from_iterable(reports.values()):
        if report.state != "dead":
            rings.setdefault(report.assignment.plan.hash, []).append(report)
    names = {profile.node: profile.name for profile in profiles}
    return ClusterSnapshot(
        me.node,
        tuple(_profile_row(p, "master" if term is not None and p.node == term.node else "ok") for p in profiles),
        tuple(_reported_row(sorted(shards, key=lambda r: r.index), names) for shards in rings.values()),
        QueueRow(0, 0, QUEUE_MAX),
        tuple(tells),
        term,
    )


def _profile_row(p: NodeProfile, state: Literal["master", "ok"]) -> NodeRow:
    return NodeRow(
        p.node,
        p.name,
        p.host,
        p.chip,
        p.memory_total_bytes,
        p.memory_free_bytes,
        state,
        temperature_c=p.temperature_c,
        bytes_per_s=p.bytes_per_s,
        measured_by=p.measured_by,
        links=p.links,
    )


def _reported_row(shards: list[ShardReport], names: dict[NodeId, str]) -> RingRow:
    plan = shards[0].assignment.plan
    ready = len(shards) == len(plan.stages) and all(shard.state == "ready" for shard in shards)
    rows = tuple(
        ShardRow(
            s.index,
            (stage := plan.stages[s.index]).node,
            names.get(stage.node, str(stage.node)),
            stage.layers,
            s.state,
            s.progress,
            s.pid,
            s.address,
            s.memory_bytes,
            stage.memory_bytes,
        )
        for s in shards
        if 0 <= s.index < len(plan.stages)
    )
    state = "serving" if ready else "loading"
    return RingRow(
        model=plan.model,
        state=state,
        plan=plan.hash,
        why=plan.why,
        layers=plan.layers,
        context_tokens=plan.context_tokens,
        epoch=0,
        failures=0,
        shards=rows,
        running=0,
        waiting=0,
        detail="",
        predicted=plan.predicted,
        kv_bits=plan.kv_bits,
        draft_model=plan.draft.reference if plan.draft else "",
    )


def _node_rows(nodes: NodeTable) -> Iterable[NodeRow]:
    for p in nodes.profiles():
        state: Literal["master", "ok"] = "master" if p.node == nodes.me else "ok"
        yield _profile_row(p, state)
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
        predicted=ring.plan.predicted if ring else None,
        kv_bits=ring.plan.kv_bits if ring else 0,
        draft_model=ring.plan.draft.reference if ring and ring.plan.draft else "",
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
