"""A small seeded world: nodes that start shards, die and come back, clients that ask and leave, a clock that jumps.

It plays node/perform for `Leadership` and checks the laws after every step; a failure shows seed and trace.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random

from ringleader.cluster import messages as m
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.plan import Plan
from ringleader.errors import ModelDoesNotFit
from ringleader.values import ModelCosts, NodeId, PlanHash, RequestId
from tests.sim.laws import LawBroken, Laws
from tests.unit.cluster.builders import GB, MB, model, node

TICK_S = 0.5
FAULTS_S = 60.0
CALM_S = 200.0  # longer than a stuck load, the backoff after it and a cool-down together
TRACE_MAX = 40

# The big one never fits one node, the middle one not always beside it, the huge one nowhere.
SMALL = model("small", layers=4, layer=100 * MB, kv=1000)
MODELS = (SMALL, model("middle", layers=6, layer=GB, kv=2000), model("big", layers=9, layer=GB, ends=(GB, GB)))
HUGE = model("huge", layers=20, layer=9 * GB)


@dataclass
class Process:
    """A shard of one start order: a later one of the same place is another process."""

    plan: Plan
    index: int
    number: int
    ready: bool = False
    stopping: bool = False
    resident: int = 0


@dataclass(order=True)
class Due:
    at: float
    order: int
    act: Callable[[], None] = field(compare=False)


class World:
    def __init__(self, seed: int, make_state: Callable[[m.NodeProfile], Leadership] = Leadership) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.now = 0.0
        self.faults = True
        self.nodes = {p.node: p for p in (node("master", 6 * GB), node("left", 8 * GB), node("right", 8 * GB))}
        self.me = next(iter(self.nodes))
        self.here: set[NodeId] = {self.me}
        self.laws = Laws({name: p.memory_free_bytes for name, p in self.nodes.items()})
        self.laws.here.add(self.me)
        self.state = make_state(self.nodes[self.me])
        self.processes: dict[tuple[NodeId, PlanHash, int], Process] = {}
        self.linked: dict[PlanHash, int] = {}
        self.running: dict[RequestId, PlanHash] = {}
        self.finished: set[RequestId] = set()
        self.failed: dict[RequestId, Exception] = {}
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)
        self._due: list[Due] = []
        self._numbers = count()

    # ------------------------------------------------------------ running it

    def run(self) -> None:
        """Faults for a while, then calm: the queue must drain, and new requests must be answered."""
        self._every(TICK_S, lambda: self.hear(m.Ticked()))
        self._every(2.0, self._report)
        for name in list(self.nodes)[1:]:
            self._later(self.chance.uniform(0, 5), partial(self._join, name))
        if self.chance.random() < 0.5:
            self._later(
                self.chance.uniform(0, 9), lambda: self.hear(m.RingWanted(self.chance.choice(MODELS), self._wish()))
            )
        for _ in range(self.chance.randrange(3, 25)):
            self._later(self.chance.uniform(0, FAULTS_S), self._ask)
        for _ in range(self.chance.randrange(0, 12)):
            self._later(self.chance.uniform(0, FAULTS_S), self.chance.choice([self._kill, self._lose, self._break]))
        self._until(FAULTS_S)
        self.faults = False
        for name in self.nodes:
            self._join(name)
        self._until(FAULTS_S + CALM_S)
        last = [self._ask_for(costs, m.PlanWish(1000), patience=CALM_S) for costs in MODELS]
        self._until(FAULTS_S + 2 * CALM_S)
        for request in last:
            crowded = isinstance(self.failed.get(request), ModelDoesNotFit) and "small" not in request
            if request not in self.finished and not crowded:
                self._fail(f"{request} was not answered when all was well: {self.failed.get(request, 'no end')}")
        if self.laws.requests:
            self._fail(f"the queue did not drain: {list(self.laws.requests)}")

    def hear(self, event: m.Event) -> None:
        """One step of the state, its laws, and what its effects set off."""
        if not isinstance(event, m.Ticked | m.NodeReported | m.ShardMadeProgress):
            self.trace.append(f"{self.now:8.2f}  {_short(event)}")
        try:
            effects = self.state.step(event, self.now)
            self.trace += [f"{self.now:8.2f}    -> {_short(effect)}" for effect in effects]
            self.laws.check(event, effects, self.now)
        except (LawBroken, ArithmeticError, LookupError, AttributeError, TypeError, ValueError) as error:
            self._fail(f"{type(error).__name__}: {error}", error)
        for effect in effects:
            self._perform(effect)

    def _until(self, end: float) -> None:
        while self._due and self._due[0].at <= end:
            due = heapq.heappop(self._due)
            self.now = due.at
            due.act()
        self.now = end

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, Due(self.now + delay, next(self._numbers), act))

    def _every(self, period: float, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self._later(period, again)

        self._later(period, again)

    def _fail(self, why: str, cause: Exception | None = None) -> None:
        lines = "\n".join(self.trace)
        raise LawBroken(f"seed {self.seed} at {self.now:.2f} s: {why}\n{lines}") from cause

    # ------------------------------------------------------------ what the node would do

    def _perform(self, effect: m.Effect) -> None:
        match effect:
            case m.StartShard():
                self._start(effect)
            case m.StopShard():
                process = self.processes.get((effect.node, effect.plan, effect.index))
                if process is not None:
                    process.stopping = True
                    self._later(self.chance.uniform(0.0, 2.0), lambda: self._end(effect.node, process, "stopped"))
            case m.LinkRing():
                self._later(self.chance.uniform(0.0, 1.0), lambda: self._link(effect))
            case m.CloseRing():
                self.linked.pop(effect.plan, None)
            case m.Dispatch():
                self.running[effect.request] = effect.plan
                if not self.faults or self.chance.random() < 0.9:
                    self._later(self.chance.expovariate(0.5), lambda: self._finish(effect.request))
            case m.CancelAtHead():
                self.running.pop(effect.request, None)
            case m.FailRequest():
                self.running.pop(effect.request, None)
                self.failed[effect.request] = effect.error

    def _start(self, order: m.StartShard) -> None:
        if order.instead_of and (old := self.processes.pop((order.node, *order.instead_of), None)) is not None:
            old.plan, old.index = order.plan, order.index
            self.processes[order.node, order.plan.hash, order.index] = old
            if old.ready:
                self._later(0.1, lambda: self._ready(order.node, old))
            return
        process = Process(order.plan, order.index, next(self._numbers))
        self.processes[order.node, order.plan.hash, order.index] = process
        if self.faults and self.chance.random() < 0.15:
            self._later(self.chance.uniform(0.0, 3.0), lambda: self._end(order.node, process, "out of luck"))
        elif not self.faults or self.chance.random() < 0.95:  # else it hangs, and must be found stuck
            took = self.chance.uniform(0.1, 6.0)
            self._later(took / 2, lambda: self._progress(order.node, process))
            self._later(took, lambda: self._ready(order.node, process))

    def _lives(self, place: NodeId, process: Process) -> bool:
        return self.processes.get((place, process.plan.hash, process.index)) is process

    def _progress(self, place: NodeId, process: Process) -> None:
        if self._lives(place, process) and not process.stopping:
            process.resident = process.plan.stages[process.index].weight_bytes // 2
            self.hear(m.ShardMadeProgress(process.plan.hash, process.index, 0.5))

    def _ready(self, place: NodeId, process: Process) -> None:
        if self._lives(place, process) and not process.stopping:
            process.ready, process.resident = True, process.plan.stages[process.index].weight_bytes
            address = f"{place}:{process.number}"
            self.hear(m.ShardBecameReady(process.plan.hash, process.index, address, process.resident, process.number))

    def _end(self, place: NodeId, process: Process, reason: str) -> None:
        if self._lives(place, process):
            del self.processes[place, process.plan.hash, process.index]
            self.linked.pop(process.plan.hash, None)
            self.hear(m.ShardDied(process.plan.hash, process.index, reason))

    def _link(self, order: m.LinkRing) -> None:
        if self.faults and self.chance.random() < 0.1:
            if self.chance.random() < 0.5:  # else nothing is heard, and the deadline must find it
                self.hear(m.RingBroke(order.plan, order.epoch, "no route"))
            return
        numbers = {f"{place}:{p.number}" for (place, _, _), p in self.processes.items() if p.ready}
        if set(order.addresses) <= numbers:
            self.linked[order.plan] = order.epoch
        self.hear(m.RingLinked(order.plan, order.epoch))

    # ------------------------------------------------------------ what the world does to it

    def _report(self) -> None:
        for place in sorted(self.here):
            held = sum(p.resident for (where, _, _), p in self.processes.items() if where == place)
            free = self.nodes[place].memory_free_bytes - held
            profile = replace(self.nodes[place], memory_held_bytes=held)
            self.hear(m.NodeReported(place, free, profile=profile))

    def _join(self, place: NodeId) -> None:
        if place not in self.here:
            self.here.add(place)
            self.hear(m.NodeJoined(self.nodes[place]))

    def _lose(self) -> None:
        place = self.chance.choice(sorted(self.nodes.keys() - {self.me}))
        if place in self.here:
            self.here.discard(place)
            for key in [key for key in self.processes if key[0] == place]:
                del self.processes[key]
            self.hear(m.NodeLost(place, "its cable was pulled"))
            self._later(self.chance.uniform(0.1, 20.0), lambda: self._join(place))

    def _kill(self) -> None:
        living = sorted(self.processes.items(), key=lambda item: item[1].number)
        if living:
            (place, _, _), process = self.chance.choice(living)
            self._end(place, process, "killed")

    def _break(self) -> None:
        if self.linked:
            plan, epoch = self.chance.choice(sorted(self.linked.items()))
            self.hear(m.RingBroke(plan, epoch - self.chance.randrange(2), "a link was cut"))

    def _ask(self) -> None:
        costs = self.chance.choice([*MODELS, *MODELS, HUGE])
        request = self._ask_for(costs, self._wish(), patience=self.chance.uniform(0.5, 60.0))
        if self.chance.random() < 0.2:
            self._later(self.chance.expovariate(0.3), lambda: self._cancel(request))

    def _ask_for(self, costs: ModelCosts, wish: m.PlanWish, patience: float) -> RequestId:
        request = RequestId(f"r{next(self._numbers)}-{costs.model}")
        self.hear(m.RequestArrived(request, costs, wish, self.now + patience))
        return request

    def _wish(self) -> m.PlanWish:
        return m.PlanWish(self.chance.choice([1000, 5000]), shards=self.chance.choice([None, None, 2, 3, 9]))

    def _finish(self, request: RequestId) -> None:
        if self.running.pop(request, None) is not None:
            self.finished.add(request)
            self.hear(m.RequestEnded(request))

    def _cancel(self, request: RequestId) -> None:
        self.running.pop(request, None)
        self.hear(m.RequestCancelled(request))


def _short(thing: m.Event | m.Effect) -> str:
    match thing:
        case m.StartShard():
            return f"StartShard {thing.plan.model} {thing.plan.hash[:6]}/{thing.index} on {thing.node}"
        case m.RequestArrived():
            return f"RequestArrived {thing.request} for {thing.costs.model} until {thing.deadline:.2f}"
        case m.RingWanted():
            return f"RingWanted {thing.costs.model} {thing.wish}"
        case m.Tell():
            return f"Tell {thing.text}"
        case m.FailRequest():
            return f"FailRequest {thing.request} {type(thing.error).__name__}: {thing.error}"
    return repr(thing)
