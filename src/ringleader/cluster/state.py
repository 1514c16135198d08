"""The whole control plane as one method: `step(event, now) -> effects`. It decides everything and does nothing.

Laws: an accepted request ends exactly once, by its deadline; a request runs only on a ring that serves; what is
heard of an unknown plan, request, node or an old epoch changes nothing; no sequence of events makes it raise.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ringleader.cluster import messages as m
from ringleader.cluster.nodes import NodeTable
from ringleader.cluster.plan import make_plan
from ringleader.cluster.requests import Request, RequestTable, overdue_error
from ringleader.cluster.rings import STOP_DEADLINE_S, Ring
from ringleader.cluster.rollout import Rollout
from ringleader.cluster.snapshot import ClusterSnapshot, TellRow, take_snapshot
from ringleader.errors import BadRequest, CallerFault, ModelFault, RingleaderError
from ringleader.values import ModelId, NodeId, PlanHash

_RingEvent = m.ShardBecameReady | m.ShardMadeProgress | m.ShardDied | m.RingLinked | m.RingBroke

TELLS_MAX = 50  # lines kept for the status page: about two screens


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A shard of a dropped plan that was told to stop and still holds memory."""

    node: NodeId
    resident_bytes: int
    until: float


class ClusterState:
    """Of the master. `now` is any clock in seconds that does not go back; the same for all calls."""

    def __init__(self, me: m.NodeProfile) -> None:
        self._nodes = NodeTable(me)
        self._requests = RequestTable()
        self._rollouts: dict[ModelId, Rollout] = {}
        self._leaving: dict[tuple[PlanHash, int], _Leaving] = {}
        self._tells: deque[TellRow] = deque(maxlen=TELLS_MAX)
        self._plans_made = 0

    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        """What is to be done about `event`, in this order. Ends of requests come before the closing of the ring
        under them, so that the client hears the typed reason; dispatches come last."""
        effects = self._hear(event, now)
        for rollout in list(self._rollouts.values()):
            effects += self._settle(rollout, now)
            if self._idle(rollout):
                del self._rollouts[rollout.model]
        effects.sort(key=_place_in_order)
        self._tells.extend(TellRow(now, e.text, e.model) for e in effects if isinstance(e, m.Tell))
        return effects

    def snapshot(self) -> ClusterSnapshot:
        return take_snapshot(self._nodes, self._rollouts.values(), self._requests, self._tells)

    # ------------------------------------------------------------ what is heard

    def _hear(self, event: m.Event, now: float) -> list[m.Effect]:
        match event:
            case m.NodeJoined():
                return self._node_joined(event.profile, now)
            case m.NodeReported():
                if event.node in self._nodes:
                    self._nodes.report(event.node, event.memory_free_bytes, self._resident_bytes(event.node))
                return []
            case m.NodeLost():
                return self._node_lost(event.node, event.reason, now)
            case m.RingWanted():
                return self._ring_wanted(event, now)
            case m.RequestArrived():
                return self._request_arrived(event, now)
            case m.RequestEnded():
                self._requests.end(event.request)
                return []
            case m.RequestCancelled():
                request = self._requests.end(event.request)
                return _cancel(request) if request is not None else []
            case m.Ticked():
                return self._ticked(now)
            case m.ShardBecameReady() | m.ShardMadeProgress() | m.ShardDied() | m.RingLinked() | m.RingBroke():
                return self._ring_event(event, now)
            case _:
                return []  # the network is the machine's business around this one

    def _node_joined(self, profile: m.NodeProfile, now: float) -> list[m.Effect]:
        effects: list[m.Effect] = []
        if profile.node != self._nodes.me:
            if profile.node in self._nodes:  # a new process or a new connection: its shards are not ours any more
                effects += self._node_lost(profile.node, "it joined anew", now)
            effects.append(m.Tell(f"node {profile.name} joined ({profile.chip}, {profile.host})"))
        self._nodes.join(profile, self._resident_bytes(profile.node))
        for rollout in self._rollouts.values():
            if rollout.ring is None:
                rollout.try_soon(now)
        return effects

    def _node_lost(self, node: NodeId, reason: str, now: float) -> list[m.Effect]:
        if node not in self._nodes or node == self._nodes.me:
            return []
        effects: list[m.Effect] = [m.Tell(f"node {self._nodes.name(node)} is gone: {reason}")]
        self._nodes.lose(node, reason, now)
        self._leaving = {key: shard for key, shard in self._leaving.items() if shard.node != node}
        for rollout in self._rollouts.values():
            ring = rollout.ring
            if ring is not None and any(stage.node == node for stage in ring.plan.stages):
                effects += ring.stop(now, lost=node)
                rollout.node_gone(ring, node, reason, now)
                self._drop(rollout, ring, now)
                effects.append(m.Tell(f"the plan of {rollout.model} is dropped: {rollout.reason}", rollout.model))
        return effects

    def _ring_wanted(self, event: m.RingWanted, now: float) -> list[m.Effect]:
        rollout = self._rollout(event.costs.model)
        rollout.want(event, now)
        if rollout.ring is None:
            return self._try_standing(rollout, now)
        return [m.Tell(f"{rollout.model} is placed already; the wish holds from its next plan on", rollout.model)]

    def _request_arrived(self, event: m.RequestArrived, now: float) -> list[m.Effect]:
        if event.request in self._requests:
            return []
        error = self._requests.accept(event, now)
        if error is not None:
            return [m.FailRequest(event.request, error)]
        self._rollout(event.costs.model)  # `_settle` does the rest
        return []

    def _ring_event(self, event: _RingEvent, now: float) -> list[m.Effect]:
        if isinstance(event, m.ShardDied):
            self._leaving.pop((event.plan, event.index), None)
        ring = self._ring_of(event.plan)
        if ring is None:
            return []
        match event:
            case m.ShardBecameReady():
                return ring.shard_ready(event, now)
            case m.ShardMadeProgress():
                ring.shard_progress(event, now)
                return []
            case m.ShardDied():
                return ring.shard_died(event, now)
            case m.RingLinked():
                return ring.linked(event, now)
            case m.RingBroke():
                return ring.broke(event, now)

    def _ticked(self, now: float) -> list[m.Effect]:
        effects: list[m.Effect] = []
        for request in self._requests.overdue(now):
            self._requests.end(request.request)
            effects += [*_cancel(request), m.FailRequest(request.request, overdue_error(request, now))]
        self._leaving = {key: shard for key, shard in self._leaving.items() if now < shard.until}
        for rollout in self._rollouts.values():
            rollout.tick(now)
            if rollout.ring is not None:
                effects += rollout.ring.tick(now)
            elif rollout.due(now):
                effects += self._try_standing(rollout, now)
        return effects

    # ------------------------------------------------------------ what follows for the requests of one model

    def _settle(self, rollout: Rollout, now: float) -> list[m.Effect]:
        """Bring the requests in line with the ring: lost ones fail, waiting ones get a plan or run."""
        ring = rollout.ring
        if ring is not None and ring.state == "failed":
            rollout.give_up(ring, now)
            self._drop(rollout, ring, now)
        effects: list[m.Effect] = []
        if not rollout.serves:
            for request in self._requests.running(rollout.model):
                effects.append(self._fail(request, rollout.loss()))
        if rollout.ring is None:
            effects += self._place_waiting(rollout, now)
        elif rollout.serves:
            for request in self._requests.waiting(rollout.model):
                request.plan = rollout.ring.plan.hash
                effects.append(m.Dispatch(request.request, request.plan))
        return effects

    def _place_waiting(self, rollout: Rollout, now: float) -> list[m.Effect]:
        effects: list[m.Effect] = []
        while rollout.ring is None and (waiting := self._requests.waiting(rollout.model)):
            if rollout.resting_until is not None:
                return effects + [self._fail(request, rollout.rest()) for request in waiting]
            first = waiting[0]
            placed = self._place(rollout, first, now)
            if isinstance(placed, list):
                return effects + placed
            for request in waiting:  # those that wish the same would hear the same, after the same search
                if (request.costs, request.wish) == (first.costs, first.wish):
                    effects.append(self._fail(request, _copy(placed)))
        return effects

    def _try_standing(self, rollout: Rollout, now: float) -> list[m.Effect]:
        placed = self._place(rollout, None, now)
        if isinstance(placed, list):
            return placed
        told = rollout.reason == str(placed)
        rollout.refused(str(placed), now)
        return [] if told else [m.Tell(f"{placed} It is tried again until it works.", rollout.model)]

    def _place(self, rollout: Rollout, request: Request | None, now: float) -> list[m.Effect] | RingleaderError:
        """Make a plan and start its shards, or return why there is none."""
        refusal: RingleaderError = ModelFault(f"nobody wants {rollout.model}")
        nodes = self._nodes.plannable(self._promised())
        for costs, wish in rollout.wishes(request):
            try:
                plan = make_plan(costs, nodes, wish, serial=self._plans_made + 1)
            except (CallerFault, ModelFault) as error:
                refusal = error
                continue
            self._plans_made += 1
            ring = Ring(plan, {node.node: node.name for node in nodes}, now)
            rollout.ring, rollout.reason, rollout.refusals = ring, "", 0
            text = f"{rollout.model} goes on {ring.describe_stages()}: {plan.why}"
            return [m.Tell(text, rollout.model), *ring.start(now)]
        return refusal

    # ------------------------------------------------------------ the tables

    def _rollout(self, model: ModelId) -> Rollout:
        return self._rollouts.setdefault(model, Rollout(model))

    def _ring_of(self, plan: PlanHash) -> Ring | None:
        rings = (rollout.ring for rollout in self._rollouts.values())
        return next((ring for ring in rings if ring is not None and ring.plan.hash == plan), None)

    def _idle(self, rollout: Rollout) -> bool:
        unwanted = rollout.standing is None and rollout.resting_until is None
        return unwanted and rollout.ring is None  # `_settle` leaves no request without a ring

    def _drop(self, rollout: Rollout, ring: Ring, now: float) -> None:
        """Forget the ring, but not the memory that its stopping shards still hold."""
        for shard in ring.shards:
            if shard.alive:
                key = (ring.plan.hash, shard.index)
                self._leaving[key] = _Leaving(shard.stage.node, shard.resident_bytes, now + STOP_DEADLINE_S)
        rollout.ring = None

    def _resident_bytes(self, node: NodeId) -> int:
        rings = [rollout.ring for rollout in self._rollouts.values() if rollout.ring is not None]
        held = sum(s.resident_bytes for ring in rings for s in ring.shards if s.stage.node == node)
        return held + sum(shard.resident_bytes for shard in self._leaving.values() if shard.node == node)

    def _promised(self) -> list[tuple[NodeId, int]]:
        rings = [rollout.ring for rollout in self._rollouts.values() if rollout.ring is not None]
        return [(stage.node, stage.memory_bytes) for ring in rings for stage in ring.plan.stages]

    def _fail(self, request: Request, error: RingleaderError) -> m.FailRequest:
        self._requests.end(request.request)
        return m.FailRequest(request.request, error)


def _cancel(request: Request) -> list[m.Effect]:
    return [] if request.plan is None else [m.CancelAtHead(request.request, request.plan)]


def _copy(error: RingleaderError) -> RingleaderError:
    """Each request gets an error of its own: a raised one collects a traceback."""
    if isinstance(error, BadRequest):
        return BadRequest(str(error), param=error.param, code=error.code)
    return type(error)(str(error))


def _place_in_order(effect: m.Effect) -> int:
    if isinstance(effect, m.FailRequest | m.CancelAtHead):
        return 0
    return 2 if isinstance(effect, m.Dispatch) else 1
