"""What a node has while it is master: the nodes that follow it, the rings, the requests. Decides, and does nothing.

Built anew in each term, from what the nodes report; nobody is told to stop a shard because a master went.
Laws: an accepted request ends exactly once, by its deadline; a request runs only on a ring that serves; what is
heard of an unknown plan, request, node or an old epoch changes nothing; no sequence of events makes it raise.
"""

from __future__ import annotations

from collections import deque

from ringleader.cluster import messages as m
from ringleader.cluster.adoption import ADOPT_GRACE_S, Found
from ringleader.cluster.followup import by_place, follow_up
from ringleader.cluster.loading import loading_error
from ringleader.cluster.placement import Placement
from ringleader.cluster.requests import QUEUE_MAX, Request, RequestTable, overdue_error
from ringleader.cluster.rings import Ring
from ringleader.cluster.rollout import Rollout
from ringleader.cluster.snapshot import ClusterSnapshot, TellRow, take_snapshot
from ringleader.errors import BadRequest, MasterMoved, ModelDoesNotFit, RingleaderError, RingLost
from ringleader.values import ModelId, NodeId, PlanHash

_RingEvent = m.ShardBecameReady | m.ShardMadeProgress | m.ShardDied | m.RingLinked | m.RingBroke

TELLS_MAX = 50  # lines kept for the status page: about two screens
RETURN_S = (
    1.5  # after a loss: a wish that no request waits for gives a flickering link time, for its ring to stay whole
)
LOOK_AFTER_S = 10.0  # after a node joined: one that flaps is gone again, one that starts is measured by then


class Leadership:
    """`now` is any clock in seconds that does not go back; the same for all calls. Until it is settled (its nodes
    have reported, or ADOPT_GRACE_S have passed) nothing new is placed. `idle_unload_s` None: never."""

    def __init__(
        self,
        me: m.NodeProfile,
        term: m.Term = m.NO_TERM,
        now: float = 0.0,
        idle_unload_s: float | None = None,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self._requests = RequestTable(queue_max)
        self._placement = Placement(me, term)
        self._nodes = self._placement.nodes
        self._rollouts = self._placement.rollouts
        self._foundlings = self._placement.foundlings
        self._settle_by = now if term == m.NO_TERM else now + ADOPT_GRACE_S
        self._settled = term == m.NO_TERM
        self._idle_unload_s = idle_unload_s
        self._tells: deque[TellRow] = deque(maxlen=TELLS_MAX)

    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        """What is to be done about `event`, in this order. Ends of requests come before the closing of the ring
        under them, so that the client hears the typed reason; dispatches come last."""
        effects = self._hear(event, now)
        for rollout in list(self._rollouts.values()):
            effects += self._settle(rollout, now)
            if self._idle(rollout):
                del self._rollouts[rollout.model]
        effects.sort(key=_place_in_order)
        self._tells.extend(TellRow(now, e.text, e.model, e.kind) for e in effects if isinstance(e, m.Tell))
        return effects

    def snapshot(self) -> ClusterSnapshot:
        return take_snapshot(self._nodes, self._rollouts.values(), self._requests, self._tells)

    def assignment(self, plan: PlanHash) -> m.Assignment | None:
        """What a node must be told to run a shard of the plan."""
        assignments = (rollout.assignment for rollout in self._rollouts.values())
        return next((a for a in assignments if a is not None and a.plan.hash == plan), None)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._nodes

    def everyone_is_here(self) -> None:
        """Every node that is heard follows and has reported: what is not there now will not come."""
        if not self._foundlings.waiting():
            self._settled = True

    def renew(self, term: m.Term) -> None:
        """The same master in a new term: rings go on, and are linked in its epochs from their next link on."""
        self._placement.term = term
        for ring in self._placement.rings():
            ring.term = term

    def resign(self, why: str) -> list[m.Effect]:
        """This node is master no more. Its requests end, its rings are let go; no shard is stopped."""
        effects: list[m.Effect] = []
        for request in self._requests.all():
            effects.append(self._fail(request, MasterMoved(f"request {request.request}: {why}.")))
        closing = [ring for ring in self._placement.rings() if ring.state in ("linking", "serving")]
        return effects + [m.CloseRing(ring.plan.hash) for ring in closing]

    # ------------------------------------------------------------ what is heard

    def _hear(self, event: m.Event, now: float) -> list[m.Effect]:
        match event:
            case m.NodeJoined():
                return self._node_joined(event, now)
            case m.NodeReported():
                return self._node_reported(event, now)
            case m.NodeLost():
                return self._node_lost(event.node, event.reason, now)
            case m.RingWanted():
                return self._ring_wanted(event, now)
            case m.RequestArrived():
                return self._request_arrived(event, now)
            case m.RequestEnded():
                request = self._requests.end(event.request, now)
                ring = self._placement.ring_of(request.plan) if request is not None and request.plan else None
                if ring is not None:
                    ring.answered()
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

    def _node_joined(self, event: m.NodeJoined, now: float) -> list[m.Effect]:
        effects: list[m.Effect] = []
        profile = event.profile
        if profile.node in self._nodes:  # a new process: its shards are not ours any more
            effects += self._node_lost(profile.node, "it joined anew", now)
        self._nodes.join(profile)
        shown = self._nodes.name(profile.node)
        if profile.node != self._nodes.me:
            effects.append(m.Tell(f"node {shown} joined ({profile.chip}, {profile.host})", kind="node_joined"))
        if shown != profile.name:
            text = f"two nodes are called {profile.name}: the later, at {profile.host}, is shown as {shown}"
            effects.append(m.Tell(f"{text}; give it a --name of its own", kind="name_taken"))
        for rollout in self._rollouts.values():
            rollout.look_at = now + LOOK_AFTER_S
            if rollout.ring is None:
                rollout.try_soon(now)
        if event.shards is not None:
            effects += self._follow_up(profile.node, event.shards, now)
        return effects

    def _node_lost(self, node: NodeId, reason: str, now: float) -> list[m.Effect]:
        if node not in self._nodes or node == self._nodes.me:
            return []
        effects: list[m.Effect] = [
            m.Tell(f"node {self._nodes.name(node)} is gone: {reason}", kind="node_lost"),
        ]
        self._nodes.lose(node, reason, now)
        self._foundlings.forget(node)
        self._placement.forget_node(node)
        for rollout in self._rollouts.values():
            ring = rollout.ring
            if ring is not None and any(stage.node == node for stage in ring.plan.stages):
                effects += self._lose_ring(rollout, ring, node, reason, now)
        return effects

    def _lose_ring(self, rollout: Rollout, ring: Ring, node: NodeId, reason: str, now: float) -> list[m.Effect]:
        effects = self._placement.keep(rollout, ring, node, now)
        rollout.node_gone(ring, node, reason, now)
        if rollout.before is not None:
            rollout.retry_at = now + RETURN_S
        text = f"the plan of {rollout.model} is dropped: {rollout.reason}"
        return [*effects, m.Tell(text, rollout.model, "plan_dropped")]

    def _ring_wanted(self, event: m.RingWanted, now: float) -> list[m.Effect]:
        rollout = self._rollout(event.costs.model, now)
        rollout.want(event, now)
        rollout.look_at = now
        if rollout.ring is None:
            return self._try_standing(rollout, now) if self._settled else []
        if rollout.assignment is not None and rollout.assignment.wish == event.wish:
            return []
        text = f"{rollout.model} is placed already; it moves to what is wished when no request runs, if that pays"
        return [m.Tell(text, rollout.model)]

    def _request_arrived(self, event: m.RequestArrived, now: float) -> list[m.Effect]:
        if event.request in self._requests:
            return []
        error = self._requests.accept(event, now)
        if error is not None:
            return [m.FailRequest(event.request, error)]
        self._rollout(event.costs.model, now)  # `_settle` does the rest
        return []

    def _ring_event(self, event: _RingEvent, now: float) -> list[m.Effect]:
        if isinstance(event, m.ShardDied):
            self._placement.shard_gone(event.plan, event.index)
        ring = self._placement.ring_of(event.plan)
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
        if now >= self._settle_by and (not self._foundlings.waiting() or now >= self._settle_by + ADOPT_GRACE_S):
            self._settled = True
        self._nodes.forget_lost(now)
        for request in self._requests.overdue(now):
            self._requests.end(request.request)
            effects += [*_cancel(request), m.FailRequest(request.request, overdue_error(request, now))]
        effects += self._adopt(now) + self._placement.tick(now)
        for rollout in self._rollouts.values():
            rollout.tick(now)
            if rollout.ring is not None:
                effects += rollout.ring.tick(now)
                effects += self._weigh(rollout, rollout.ring, now)
            elif self._settled and rollout.due(now):
                effects += self._try_standing(rollout, now)
        return effects

    # ------------------------------------------------------------ what nodes report, and what is made of it

    def _node_reported(self, event: m.NodeReported, now: float) -> list[m.Effect]:
        node = event.node
        if node not in self._nodes:
            return []
        effects = self._follow_up(node, event.shards, now) if event.shards is not None else []
        self._nodes.report(node, event.memory_free_bytes, event.profile)
        return effects

    def _follow_up(self, node: NodeId, shards: tuple[m.ShardReport, ...], now: float) -> list[m.Effect]:
        reports = by_place(shards)
        effects: list[m.Effect] = []
        for ring in list(self._placement.rings()):
            news, orders = follow_up(ring, node, reports)
            for each in news:
                effects += self._hear(each, now)
            effects += orders
        alive = {place: report for place, report in reports.items() if report.state != "dead"}
        effects += self._placement.follow_up(node, alive)
        strays = [report for (plan, _), report in alive.items() if not self._placement.knows(plan)]
        self._foundlings.note(node, strays, now)
        return effects + self._adopt(now)

    def _adopt(self, now: float) -> list[m.Effect]:
        """Take over what was found whole, or what cannot become so by waiting; the rest is told to stop."""
        effects: list[m.Effect] = []
        for found in self._foundlings.due(now):
            rollout = self._rollout(found.assignment.plan.model, now)
            self._foundlings.take(found.plan)
            ring = rollout.ring
            if ring is not None and found.ready and ring.state not in ("linking", "serving"):
                effects += ring.stop(now)  # one that is ready is worth more than one that loads
                self._placement.drop(rollout, ring, now)
                ring = None
            if ring is None and self._placement.has_room(found):
                effects += self._take_over(rollout, found, now)
                continue
            self._placement.see_off(found, now)
            why = "this one serves it already" if ring is not None else "its memory was given to others"
            text = f"a ring of {rollout.model} that another master made is stopped: {why}"
            effects += [m.Tell(text, rollout.model, "shard_stray"), *_stop_all(found)]
        return effects

    def _take_over(self, rollout: Rollout, found: Found, now: float) -> list[m.Effect]:
        plan = found.assignment.plan
        ring = Ring(plan, self._placement.names(), now, self._placement.term)
        effects = self._placement.release(rollout, now)
        rollout.ring, rollout.assignment, rollout.used_at = ring, found.assignment, now
        if found.assignment.standing and rollout.standing is None:
            a = found.assignment
            rollout.standing = m.RingWanted(a.costs, a.wish, a.reference)
        effects += ring.adopt(found.reports, now)
        gone = next((stage.node for stage in plan.stages if stage.node not in self._nodes), None)
        if gone is not None:
            return effects + self._lose_ring(rollout, ring, gone, "it went with the master before", now)
        text = f"{rollout.model} is taken over as it runs ({ring.describe_stages()})"
        return [*effects, m.Tell(text, rollout.model, "ring_adopted")]

    # ------------------------------------------------------------ what follows for the requests of one model

    def _settle(self, rollout: Rollout, now: float) -> list[m.Effect]:
        """Bring the requests in line with the ring: lost ones fail, waiting ones get a plan or run."""
        ring = rollout.ring
        if ring is not None and ring.state == "failed":
            rollout.give_up(ring, now)
            self._placement.drop(rollout, ring, now)
        effects: list[m.Effect] = []
        if not rollout.serves:
            for request in self._requests.running(rollout.model):
                effects.append(self._fail(request, rollout.loss()))
        if rollout.ring is None:
            if self._settled:
                effects += self._place_waiting(rollout, now)
        elif rollout.serves:
            for request in self._requests.waiting(rollout.model):
                request.plan = rollout.ring.plan.hash
                effects.append(m.Dispatch(request.request, request.plan))
        for request in self._requests.impatient(rollout.model, now):
            effects.append(self._fail(request, loading_error(rollout, now)))
        if self._requests.live(rollout.model):
            rollout.used_at = now
        return effects

    def _place_waiting(self, rollout: Rollout, now: float) -> list[m.Effect]:
        effects: list[m.Effect] = []
        while rollout.ring is None and (waiting := self._requests.waiting(rollout.model)):
            if rollout.resting_until is not None:
                return effects + [self._fail(request, rollout.rest()) for request in waiting]
            first = waiting[0]
            placed = self._placement.place(rollout, first, self._longest_idle(), now)
            if isinstance(placed, list):
                return effects + placed
            if isinstance(placed, ModelDoesNotFit) and rollout.before is not None:
                return effects  # the node that is lost may be back at once; KEEP_S at most
            for request in waiting:  # those that wish the same would hear the same, after the same search
                if (request.costs, request.wish) == (first.costs, first.wish):
                    effects.append(self._fail(request, _copy(placed)))
        return effects

    def _try_standing(self, rollout: Rollout, now: float) -> list[m.Effect]:
        placed = self._placement.place(rollout, None, self._longest_idle(), now)
        if isinstance(placed, list):
            return placed
        told = rollout.reason == str(placed)
        rollout.refused(str(placed), now)
        text = f"{str(placed).rstrip('. ')}. It is tried again until it works."
        return [] if told else [m.Tell(text, rollout.model, "plan_refused")]

    def _weigh(self, rollout: Rollout, ring: Ring, now: float) -> list[m.Effect]:
        """Give back what nobody uses; move to a plan that is much better, while no request runs."""
        if ring.state != "serving" or self._requests.live(rollout.model):
            return []
        if (
            self._idle_unload_s is not None
            and rollout.standing is None
            and now - rollout.used_at >= self._idle_unload_s
        ):
            why = f"as nobody used it for {self._idle_unload_s / 60:.0f} min"
            return self._placement.unload(rollout, why, now)
        if rollout.look_at is None or now < rollout.look_at or not self._settled:
            return []
        rollout.look_at = None
        better = self._placement.better_plan(rollout, ring)
        return [] if better is None else self._placement.move(rollout, ring, *better, now)

    def _longest_idle(self) -> list[Rollout]:
        """Rings that nobody wants at this moment, the longest unused first."""
        idle = [r for r in self._rollouts.values() if r.standing is None and not self._requests.live(r.model)]
        return sorted((r for r in idle if r.ring is not None), key=lambda rollout: rollout.used_at)

    # ------------------------------------------------------------ the tables

    def _rollout(self, model: ModelId, now: float) -> Rollout:
        return self._rollouts.setdefault(model, Rollout(model, used_at=now))

    def _idle(self, rollout: Rollout) -> bool:
        unwanted = rollout.standing is None and rollout.resting_until is None
        return unwanted and rollout.ring is None and rollout.before is None and not self._requests.live(rollout.model)

    def _fail(self, request: Request, error: RingleaderError) -> m.FailRequest:
        self._requests.end(request.request)
        return m.FailRequest(request.request, error)


def _stop_all(found: Found) -> list[m.Effect]:
    return [m.StopShard(node, found.plan, index) for index, (node, _) in found.shards.items()]


def _cancel(request: Request) -> list[m.Effect]:
    return [] if request.plan is None else [m.CancelAtHead(request.request, request.plan)]


def _copy(error: RingleaderError) -> RingleaderError:
    """Each request gets an error of its own: a raised one collects a traceback."""
    if isinstance(error, BadRequest):
        return BadRequest(str(error), param=error.param, code=error.code)
    if isinstance(error, RingLost):
        return RingLost(str(error), resumable=error.resumable)
    return type(error)(str(error))


def _place_in_order(effect: m.Effect) -> int:
    if isinstance(effect, m.FailRequest | m.CancelAtHead):
        return 0
    return 2 if isinstance(effect, m.Dispatch) else 1
