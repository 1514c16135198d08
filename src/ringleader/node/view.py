"""The cluster as `/v1/cluster`, `/v1/models` and `ringleader status` show it, on whichever node they are asked.

The master knows it whole; another node asks it, and shows what it hears itself when no answer comes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict

import ringleader
from ringleader.api.contracts import ModelCard
from ringleader.cluster.chips import bandwidth
from ringleader.cluster.member import Member
from ringleader.cluster.snapshot import ClusterSnapshot, NodeRow, RingRow, ShardRow, TellRow
from ringleader.cluster.timing import EFFICIENCY
from ringleader.node.cards import CardDesk
from ringleader.node.mastership import Mastership
from ringleader.node.shelf import Shelf
from ringleader.node.telemetry import RingMeter
from ringleader.trust.credentials import Credentials
from ringleader.values import Json, ModelId

RING_STATES = {"serving": "ready"}  # the status page's word for it
CLUSTER, MODELS = "cluster", "models"  # the questions that nodes ask each other


class View:
    """What this node believes, as JSON; and what it is told."""

    def __init__(
        self,
        name: str,
        member: Member,
        mastership: Mastership,
        shelf: Shelf,
        meters: dict[ModelId, RingMeter],
        credentials: Credentials | None,
    ) -> None:
        self._name = name
        self._member = member
        self._mastership = mastership
        self._shelf = shelf
        self._meters = meters
        self._credentials = credentials
        self._card_desk = CardDesk(shelf.find)
        self._started = time.monotonic()
        self._moments: dict[tuple[float, str], float] = {}  # when the told events were, in Unix seconds

    async def cluster(self) -> dict[str, Json]:
        """The body of `/v1/cluster`; its shape is drawn at `api.contracts.ClusterView.cluster`."""
        mine = self._mine()
        told = await self._mastership.ask(CLUSTER)
        if not isinstance(told, dict):
            return mine
        own = {key: mine[key] for key in ("name", "node", "version", "uptime_s", "secure", "cluster")}
        events = sorted([*told.get("events", ()), *mine["events"]], key=lambda event: event["at"])
        return {**told, **own, "events": events}

    async def cards(self) -> list[ModelCard]:
        """For `/v1/models`: the master's, since it answers for them."""
        told = await self._mastership.ask(MODELS)
        if not isinstance(told, list):
            return await self._shelf.cards()
        return [ModelCard(**card) for card in told]

    async def answer(self, question: bytes) -> bytes:
        """What another node asked this one: as master, or for the card of a model."""
        try:
            asked = json.loads(question)
        except (ValueError, RecursionError):
            return b"null"
        if (card := await self._card_desk.answer(asked)) is not None:
            return card
        if asked == MODELS:
            return json.dumps([asdict(card) for card in await self._shelf.cards()]).encode()
        return json.dumps(self._mine()).encode()

    def health(self) -> dict[str, Json]:
        """The body of `/health`."""
        status = "ok" if self._mastership.master is not None else "no master"
        models = [self._shelf.store.model_id(reference) for reference in self._shelf.served]
        return {"status": status, "version": ringleader.__version__, "models": models}

    def _mine(self) -> dict[str, Json]:
        shot = self._member.snapshot()
        c = self._credentials
        return {
            "name": self._name,
            "node": shot.me,
            "version": ringleader.__version__,
            "master": None if shot.term is None else shot.term.node,
            "term": None if shot.term is None else shot.term.number,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "secure": c is not None,
            "cluster": None if c is None else {"id": c.cluster, "name": c.name},
            "nodes": [_node(row, shot) for row in shot.nodes],
            "rings": [self._ring(row) for row in shot.rings],
            "queue": {"waiting": shot.queue.waiting, "running": shot.queue.running, "max": shot.queue.limit},
            "events": self._events(shot.tells),
        }

    def _events(self, tells: Sequence[TellRow]) -> list[dict[str, Json]]:
        """An event's moment is reckoned once: clocks drift apart, and readers know an event by it."""
        known = self._moments
        moments = {(row.at, row.text): known.get((row.at, row.text)) or _wall(row.at) for row in tells}
        self._moments = moments
        return [
            {
                "at": moments[row.at, row.text],
                "kind": row.kind,
                "model": row.model,
                "text": row.text,
                "node": self._name,
            }
            for row in tells
        ]

    def _ring(self, row: RingRow) -> dict[str, Json]:
        meter = self._meters.get(row.model, RingMeter())
        return {
            "model": row.model,
            "plan": row.plan,
            "state": RING_STATES.get(row.state, row.state),
            "epoch": row.epoch,
            "why": row.detail or row.why,
            "plan_why": row.why or None,
            "predicted": None if row.predicted is None else asdict(row.predicted),
            "context_tokens": row.context_tokens,
            "kv_bits": row.kv_bits or None,
            "draft_model": row.draft_model or None,
            "stages": [_stage(shard) for shard in row.shards],
            "running": row.running,
            "waiting": row.waiting,
            "tokens_per_s": round(meter.tokens_per_s, 2),
            "last_tokens_per_s": None if meter.last_tokens_per_s is None else round(meter.last_tokens_per_s, 2),
            "passes_per_token": None if meter.passes_per_token is None else round(meter.passes_per_token, 3),
            "cache": {
                "kept_tokens": meter.kept_tokens,
                "prompt_tokens": meter.prompt_tokens,
                "cached_tokens": meter.cached_tokens,
            },
            "served_requests": meter.requests,
            "served_tokens": meter.tokens,
        }


def _node(row: NodeRow, shot: ClusterSnapshot) -> dict[str, Json]:
    return {
        "id": row.node,
        "name": row.name,
        "host": row.host,
        "chip": row.chip,
        "memory_total_bytes": row.memory_total_bytes,
        "memory_free_bytes": row.memory_free_bytes,
        "temperature_c": row.temperature_c,
        **_speed(row),
        "links": [asdict(link) for link in row.links],
        "state": "ok" if row.state == "master" else row.state,
        "detail": row.detail,
        "is_master": shot.term is not None and row.node == shot.term.node,
    }


def _speed(row: NodeRow) -> dict[str, Json]:
    """How fast it goes through weights, as plans take it, and where that figure is from."""
    if row.bytes_per_s:
        return {"bytes_per_s": row.bytes_per_s, "measured_by": row.measured_by or "the node"}
    known = bandwidth(row.chip)
    return {"bytes_per_s": known and known * EFFICIENCY, "measured_by": None if known is None else "chip"}


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
