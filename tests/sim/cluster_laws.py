"""The laws of the whole cluster, checked from outside after every step: they see events, effects and words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringleader.cluster import messages as m
from ringleader.cluster.plan import NODE_RESERVE_BYTES, Plan
from ringleader.values import NodeId, PlanHash, RequestId
from tests.sim.laws import demand

if TYPE_CHECKING:
    from tests.sim.machine import Machine


@dataclass
class Seen:
    """What was seen of one node; `fence` outlives its processes, as far as its disk must."""

    life: int = 0
    fence: m.Term = m.NO_TERM
    live: dict[RequestId, float] = field(default_factory=dict)  # and the deadline of each
    running: dict[RequestId, PlanHash] = field(default_factory=dict)
    serving: set[PlanHash] = field(default_factory=set)
    epochs: dict[PlanHash, int] = field(default_factory=dict)
    told_to_stop: set[PlanHash] = field(default_factory=set)


class ClusterLaws:
    def __init__(self, capacity: dict[NodeId, int]) -> None:
        self._capacity = capacity
        self._claimed: dict[m.Term, int] = {}  # by which start of its node
        self._epochs: dict[tuple[PlanHash, int], NodeId] = {}
        self._seen: dict[NodeId, Seen] = {node: Seen() for node in capacity}

    def booted(self, machine: Machine) -> None:
        """A new process knows only what its disk says: the number of the highest term that it obeyed."""
        seen = self._seen[machine.node]
        self._seen[machine.node] = Seen(machine.life, fence=m.Term(seen.fence.number, NodeId("")))
        demand(machine.persisted >= seen.fence.number, f"{machine.node} obeyed {seen.fence}, but did not persist it")

    def check(self, machine: Machine, event: m.Event, effects: list[m.Effect]) -> None:
        """One step of one node."""
        seen = self._seen[machine.node]
        self._hear(machine, seen, event)
        persisted = machine.persisted
        for effect in effects:
            if isinstance(effect, m.PersistTerm):
                demand(effect.number > persisted, "a term is persisted that is not new")
                persisted = effect.number
            elif isinstance(effect, m.Send) and isinstance(effect.word, m.Beat):
                self._beat(machine, seen, effect.word, persisted)
            else:
                self._ordered(machine, seen, event, effect)
        if not machine.member.leads:
            demand(not seen.live, f"{machine.node} leads no more, but {list(seen.live)} have not ended")
        if any(isinstance(effect, m.RunShard | m.Send) for effect in effects) and machine.member.leads:
            self._plans_fit(machine, effects)

    # ------------------------------------------------------------ law 1: terms and orders

    def _beat(self, machine: Machine, seen: Seen, beat: m.Beat, persisted: int) -> None:
        demand(beat.fence >= seen.fence, f"the fence of {machine.node} falls from {seen.fence} to {beat.fence}")
        seen.fence = beat.fence
        demand(persisted >= beat.fence.number, f"{machine.node} tells of term {beat.fence} before it is persisted")
        if beat.follows is not None:
            demand(beat.follows >= seen.fence, f"{machine.node} follows {beat.follows}, below its fence {seen.fence}")
            if beat.follows.node == machine.node:
                claimer = self._claimed.setdefault(beat.follows, beat.incarnation)
                demand(claimer == beat.incarnation, f"{beat.follows} has two masters: it was claimed twice")

    def _order_obeyed(self, machine: Machine, seen: Seen, event: m.Event) -> None:
        match event:
            case m.Heard(_, (m.StartOrder() | m.StopOrder()) as order):
                demand(order.term >= seen.fence, f"{machine.node} obeys {order.term} after {seen.fence}")
                seen.fence = max(seen.fence, order.term)
            case _:
                demand(machine.member.leads, f"{machine.node} starts or stops a shard that nobody ordered")

    # ------------------------------------------------------------ law 2: plans

    def _plans_fit(self, machine: Machine, effects: list[m.Effect]) -> None:
        started = [e.assignment.plan for e in effects if isinstance(e, m.RunShard)]
        started += [
            e.word.assignment.plan for e in effects if isinstance(e, m.Send) and isinstance(e.word, m.StartOrder)
        ]
        if not started:
            return
        for plan in started:
            _covers(plan)
        planned: dict[NodeId, int] = {}
        for ring in machine.member.snapshot().rings:
            for shard in ring.shards:
                planned[shard.node] = planned.get(shard.node, 0) + shard.planned_bytes
        for node in {stage.node for plan in started for stage in plan.stages}:
            room = self._capacity[node] - NODE_RESERVE_BYTES
            demand(planned.get(node, 0) <= room, f"the plans of {machine.node} do not fit {node}")

    # ------------------------------------------------------------ laws 3, 4 and 6: rings and requests

    def _hear(self, machine: Machine, seen: Seen, event: m.Event) -> None:
        match event:
            case m.RequestArrived():
                seen.live.setdefault(event.request, event.deadline)
            case m.RequestEnded(request) | m.RequestCancelled(request):
                seen.live.pop(request, None)
                seen.running.pop(request, None)
            case m.RingLinked(plan, epoch) if seen.epochs.get(plan) == epoch:
                seen.serving.add(plan)
            case m.RingBroke(plan, epoch) if seen.epochs.get(plan) == epoch:
                seen.serving.discard(plan)

    def _ordered(self, machine: Machine, seen: Seen, event: m.Event, effect: m.Effect) -> None:
        match effect:
            case m.RunShard() | m.EndShard() | m.RenameShard():
                self._order_obeyed(machine, seen, event)
            case m.Send(_, m.StartOrder(term) | m.StopOrder(term)):
                demand(machine.member.leads, f"{machine.node} gives orders and does not lead")
                demand(self._claimed.get(term, 0) != 0 or term.node == machine.node, "an order of another's term")
            case m.LinkRing(plan, epoch):
                demand(epoch > seen.epochs.get(plan, 0), f"epoch {epoch} of {plan[:6]} comes again")
                owner = self._epochs.setdefault((plan, epoch), machine.node)
                demand(owner == machine.node, f"epoch {epoch} of {plan[:6]} has two masters")
                seen.epochs[plan] = epoch
                seen.serving.discard(plan)
            case m.CloseRing(plan):
                seen.serving.discard(plan)
            case m.Dispatch(request, plan):
                demand(request in seen.live, f"{request} is dispatched after its end")
                demand(request not in seen.running, f"{request} is dispatched twice")
                demand(plan in seen.serving, f"{request} goes to a ring that does not serve")
                seen.running[request] = plan
            case m.FailRequest(request):
                demand(request in seen.live, f"{request} ends a second time")
                del seen.live[request]
                seen.running.pop(request, None)

    def after(self, machine: Machine, event: m.Event) -> None:
        """When the step is done: nothing runs on a ring that is lost, nothing outlives its deadline."""
        seen = self._seen[machine.node]
        for request, plan in seen.running.items():
            demand(plan in seen.serving, f"{request} still runs on a ring that is lost")
        if isinstance(event, m.Ticked):
            for request, deadline in seen.live.items():
                demand(machine.now < deadline, f"{request} lives past its deadline")

    def live(self) -> list[RequestId]:
        return [request for seen in self._seen.values() for request in seen.live]


def _covers(plan: Plan) -> None:
    covered = [layer for s in plan.stages for layer in range(s.layers.start, s.layers.stop)]
    demand(covered == list(range(plan.layers)), "a plan does not cover its layers once and in order")
