"""The laws of the cluster's state, checked from outside: this sees only events and effects, never the state itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ringleader.cluster import messages as m
from ringleader.cluster.plan import NODE_RESERVE_BYTES, Plan
from ringleader.errors import RingLost
from ringleader.values import NodeId, PlanHash, RequestId


class LawBroken(AssertionError):
    pass


def demand(holds: bool, law: str) -> None:
    if not holds:
        raise LawBroken(law)


@dataclass
class SeenRing:
    plan: Plan
    ordered_epoch: int = 0
    serving: bool = False
    live: set[int] = field(default_factory=set)  # started, neither stopped nor dead


@dataclass
class SeenRequest:
    deadline: float
    plan: PlanHash | None = None


class Laws:
    """`capacity` is what each node has free when it runs no shard of ours."""

    def __init__(self, capacity: dict[NodeId, int]) -> None:
        self.capacity = capacity
        self.here: set[NodeId] = set()
        self.rings: dict[PlanHash, SeenRing] = {}
        self.requests: dict[RequestId, SeenRequest] = {}
        self.ended: Counter[RequestId] = Counter()

    def check(self, event: m.Event, effects: list[m.Effect], now: float) -> None:
        """One step. Raises LawBroken."""
        self._hear(event)
        for effect in effects:
            self._ordered(effect)
        for name, request in self.requests.items():
            if request.plan is not None:
                ring = self.rings.get(request.plan)
                demand(ring is not None and ring.serving, f"{name} still runs on a ring that is lost")
            if isinstance(event, m.Ticked):
                demand(now < request.deadline, f"{name} lives past its deadline")

    def _hear(self, event: m.Event) -> None:
        match event:
            case m.NodeJoined():
                self.here.add(event.profile.node)
            case m.NodeLost():
                self.here.discard(event.node)
                for plan, ring in list(self.rings.items()):
                    if any(stage.node == event.node for stage in ring.plan.stages):
                        ring.serving = False
                        ring.live -= {i for i, s in enumerate(ring.plan.stages) if s.node == event.node}
                        self._forget_if_gone(plan)
            case m.ShardDied() if event.plan in self.rings and event.index in self.rings[event.plan].live:
                self.rings[event.plan].live.discard(event.index)
                self.rings[event.plan].serving = False
            case m.RingLinked() if event.plan in self.rings:
                ring = self.rings[event.plan]
                everyone = len(ring.live) == len(ring.plan.stages)
                ring.serving = event.epoch == ring.ordered_epoch and everyone
            case m.RingBroke() if event.plan in self.rings:
                if event.epoch == self.rings[event.plan].ordered_epoch:
                    self.rings[event.plan].serving = False
            case m.RequestArrived():
                self.requests.setdefault(event.request, SeenRequest(event.deadline))
            case m.RequestEnded() | m.RequestCancelled():
                self._end(event.request)

    def _ordered(self, effect: m.Effect) -> None:
        match effect:
            case m.StartShard():
                self._start(effect)
            case m.StopShard():
                demand(effect.node in self.here, f"{effect.node} is not here, and is told to stop a shard")
                self.rings[effect.plan].live.discard(effect.index)
                self._forget_if_gone(effect.plan)
            case m.LinkRing():
                ring = self.rings[effect.plan]
                demand(len(ring.live) == len(ring.plan.stages), "a ring is linked with a shard missing")
                demand(effect.epoch > ring.ordered_epoch, f"epoch {effect.epoch} comes again")
                ring.ordered_epoch = effect.epoch
            case m.CloseRing() if effect.plan in self.rings:
                self.rings[effect.plan].serving = False
            case m.Dispatch():
                ring_ = self.rings.get(effect.plan)
                demand(ring_ is not None and ring_.serving, f"{effect.request} goes to a ring that does not serve")
                demand(effect.request in self.requests, f"{effect.request} is dispatched after its end")
                demand(self.requests[effect.request].plan is None, f"{effect.request} is dispatched twice")
                self.requests[effect.request].plan = effect.plan
            case m.FailRequest():
                demand(effect.request in self.requests, f"{effect.request} ends a second time")
                self._end(effect.request)
                if isinstance(effect.error, RingLost) and not effect.error.resumable:  # the others go on by themselves
                    demand("again" in str(effect.error), "a lost request is not told what to do")

    def _end(self, request: RequestId) -> None:
        if self.requests.pop(request, None) is not None:
            self.ended[request] += 1
            demand(self.ended[request] == 1, f"{request} ends a second time")

    def _start(self, effect: m.StartShard) -> None:
        plan = effect.plan
        ring = self.rings.setdefault(plan.hash, SeenRing(plan))
        demand(effect.node in self.here, f"{effect.node} is not here, and is told to start a shard")
        demand(plan.stages[effect.index].node == effect.node, "a shard is started on a node of another stage")
        demand(effect.index not in ring.live, f"shard {effect.index} of {plan.hash} is started while it lives")
        if effect.instead_of is not None and (before := self.rings.get(effect.instead_of[0])) is not None:
            before.live.discard(effect.instead_of[1])  # it goes on under this name, or is gone
            self._forget_if_gone(before.plan.hash)
        ring.live.add(effect.index)
        covered = [layer for s in plan.stages for layer in range(s.layers.start, s.layers.stop)]
        demand(covered == list(range(plan.layers)), "a plan does not cover its layers once and in order")
        for node in {stage.node for stage in plan.stages}:
            living = [(r, i) for r in self.rings.values() for i in r.live]
            planned = sum(r.plan.stages[i].memory_bytes for r, i in living if r.plan.stages[i].node == node)
            demand(planned + NODE_RESERVE_BYTES <= self.capacity[node], f"the plans do not fit {node}")

    def _forget_if_gone(self, plan: PlanHash) -> None:
        ring = self.rings[plan]
        ring.serving = False
        if not ring.live:
            del self.rings[plan]
