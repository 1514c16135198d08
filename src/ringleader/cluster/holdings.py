"""The shards of this node: what was ordered, what the supervisor said, and what the beats report of both.

Laws: one process a place (plan, index); an attempt that is known is not started again; a dead one stays known
while it is reported, so that a late copy of its order starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ringleader.cluster import messages as m
from ringleader.values import PlanHash

DEAD_REPORTED_S = 10.0  # a master that hears nothing for so long has long counted the node as lost
PLACES_MAX = 256  # remembered; dead ones are forgotten first. A node runs a few shards at a time

Place = tuple[PlanHash, int]


@dataclass(slots=True)
class _Held:
    report: m.ShardReport
    since: float

    @property
    def alive(self) -> bool:
        return self.report.state != "dead"


class Holdings:
    """`version` changes with everything that must be told at once."""

    def __init__(self) -> None:
        self._held: dict[Place, _Held] = {}
        self.version = 0

    def start(self, order: m.StartOrder, now: float) -> list[m.Effect]:
        """Obey a StartOrder that has passed the fence; one for a place that its plan does not have is none."""
        if not 0 <= order.index < len(order.assignment.plan.stages):
            return []
        place = (order.assignment.plan.hash, order.index)
        known = self._held.get(place)
        news = known is None or (not known.alive and now - known.since >= DEAD_REPORTED_S)
        if known is not None and not news and known.report.attempt >= order.attempt:
            return []
        if known is not None and known.alive:  # the order's sender took it for dead: it must go first
            return self.stop(*place, now)
        report = m.ShardReport(order.assignment, order.index, order.attempt, "loading")
        old = self._held.get(order.instead_of) if order.instead_of else None
        if old is not None and order.instead_of is not None and _can_become(old.report, report):
            del self._held[order.instead_of]
            renamed = replace(old.report, assignment=order.assignment, index=order.index, attempt=order.attempt)
            self._put(place, renamed, now)
            return [m.RenameShard(*order.instead_of, order.assignment, order.index)]
        self._put(place, report, now)
        return [m.RunShard(order.assignment, order.index)]

    def stop(self, plan: PlanHash, index: int, now: float) -> list[m.Effect]:
        """End the shard; nothing if it does not run or is ending."""
        held = self._held.get((plan, index))
        if held is None or held.report.state not in ("loading", "ready"):
            return []
        self._put((plan, index), replace(held.report, state="stopping"), now)
        return [m.EndShard(plan, index)]

    def hear(self, event: m.ShardBecameReady | m.ShardMadeProgress | m.ShardDied, now: float) -> None:
        """The supervisor's word."""
        place = (event.plan, event.index)
        held = self._held.get(place)
        if held is None or not held.alive:
            return
        match event:
            case m.ShardMadeProgress() if held.report.state == "loading":
                held.report = replace(held.report, progress=event.fraction)  # no haste: the next beat tells it
            case m.ShardBecameReady() if held.report.state == "loading":
                ready = replace(held.report, state="ready", progress=1.0, address=event.address)
                self._put(place, replace(ready, memory_bytes=event.memory_bytes, pid=event.pid), now)
            case m.ShardDied():
                dead = replace(held.report, state="dead", reason=event.reason, permanent=event.permanent)
                self._put(place, replace(dead, progress=0.0, address="", memory_bytes=0, pid=0), now)

    def reports(self, now: float) -> tuple[m.ShardReport, ...]:
        """For the beats: the living, and those that died lately."""
        return tuple(held.report for held in self._held.values() if held.alive or now - held.since < DEAD_REPORTED_S)

    def held_bytes(self) -> int:
        """What the living shards hold of this node's memory now, as far as they said."""
        return sum(_resident(held.report) for held in self._held.values() if held.alive)

    def _put(self, place: Place, report: m.ShardReport, now: float) -> None:
        self._held[place] = _Held(report, now)
        self.version += 1
        too_many = max(0, len(self._held) - PLACES_MAX)
        for old in [key for key, held in self._held.items() if not held.alive][:too_many]:
            del self._held[old]


def _resident(report: m.ShardReport) -> int:
    return max(report.memory_bytes, int(report.assignment.plan.stages[report.index].weight_bytes * report.progress))


def _loads(report: m.ShardReport) -> bool:
    """Whether it has a process that loads; before its first progress that may still be on its way."""
    return report.state == "loading" and report.progress > 0


def _can_become(old: m.ShardReport, new: m.ShardReport) -> bool:
    """Whether the process can go on as the new shard: the same layers of the same files, the same caches."""
    a, b = old.assignment.plan, new.assignment.plan
    same_files = (a.model, a.digest, a.kv_tokens, a.kv_bits) == (b.model, b.digest, b.kv_tokens, b.kv_bits)
    same_files = same_files and (old.index > 0 or a.draft == b.draft)
    return (
        (old.state == "ready" or _loads(old))
        and same_files
        and a.stages[old.index].layers == b.stages[new.index].layers
    )
