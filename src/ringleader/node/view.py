"""The cluster as `/v1/cluster` and `ringleader status` show it."""

from __future__ import annotations

import time

import ringleader
from ringleader.cluster.snapshot import ClusterSnapshot, NodeRow, RingRow, ShardRow
from ringleader.cluster.state import ClusterState
from ringleader.node.telemetry import RingMeter
from ringleader.values import Json, ModelId

RING_STATES = {"serving": "ready"}  # the status page's word for it


class View:
    """What this master believes, as JSON."""

    def __init__(self, name: str, state: ClusterState, meters: dict[ModelId, RingMeter]) -> None:
        self._name = name
        self._state = state
        self._meters = meters
        self._started = time.monotonic()

    def cluster(self) -> dict[str, Json]:
        """The body of `/v1/cluster`; its shape is drawn at `api.contracts.ClusterView.cluster`."""
        snapshot = self._state.snapshot()
        return {
            "name": self._name,
            "version": ringleader.__version__,
            "master": snapshot.me,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "nodes": [_node(row, snapshot) for row in snapshot.nodes],
            "rings": [self._ring(row) for row in snapshot.rings],
            "queue": {
                "waiting": snapshot.queue.waiting,
                "running": snapshot.queue.running,
                "max": snapshot.queue.limit,
            },
            "events": [{"at": _wall(row.at), "text": row.text} for row in snapshot.tells],
        }

    def health(self) -> dict[str, Json]:
        """The body of `/health`."""
        return {"status": "ok", "version": ringleader.__version__}

    def _ring(self, row: RingRow) -> dict[str, Json]:
        meter = self._meters.get(row.model, RingMeter())
        return {
            "model": row.model,
            "plan": row.plan,
            "state": RING_STATES.get(row.state, row.state),
            "epoch": row.epoch,
            "why": row.detail or row.why,
            "context_tokens": row.context_tokens,
            "stages": [_stage(shard) for shard in row.shards],
            "running": row.running,
            "waiting": row.waiting,
            "tokens_per_s": round(meter.tokens_per_s, 2),
            "passes_per_token": None if meter.passes_per_token is None else round(meter.passes_per_token, 3),
            "served_requests": meter.requests,
            "served_tokens": meter.tokens,
        }


def _node(row: NodeRow, snapshot: ClusterSnapshot) -> dict[str, Json]:
    return {
        "id": row.node,
        "name": row.name,
        "chip": row.chip,
        "memory_total_bytes": row.memory_total_bytes,
        "memory_free_bytes": row.memory_free_bytes,
        "state": "ok" if row.state == "master" else row.state,
        "detail": row.detail,
        "is_master": row.node == snapshot.me,
    }


def _stage(row: ShardRow) -> dict[str, Json]:
    return {
        "node": row.node,
        "name": row.node_name,
        "first_layer": row.layers.start,
        "last_layer": row.layers.stop - 1,
        "state": row.state,
        "progress": round(row.progress, 3),
        "pid": row.pid or None,
        "memory_bytes": row.memory_bytes or None,
    }


def _wall(at: float) -> float:
    """A moment of the monotonic clock in Unix seconds."""
    return round(time.time() - (time.monotonic() - at), 3)
