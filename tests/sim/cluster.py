"""A seeded cluster of 1 to 8 machines that run the product's own `Member.step`, and everything that happens to them.

Faults for a while, then calm: a master within 3 s, every request ends, and a master's death costs no shard.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from random import Random

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.errors import ModelDoesNotFit, RingLost
from ringleader.values import ModelCosts, ModelId, NodeId
from tests.sim.clients import Clients, Job
from tests.sim.cluster_laws import ClusterLaws
from tests.sim.laws import LawBroken
from tests.sim.machine import Machine, Session
from tests.sim.network import Clock, Network
from tests.unit.cluster.builders import GB, MB, model, node

START_S = 5.0  # for the first master and the first rings
FAULTS_S = 11.0
MASTER_S = 3.0
CALM_S = 8.0  # longer than any patience, and than a ring takes to come back
TRACE_MAX = 60

SMALL = model("small", layers=4, layer=100 * MB, kv=1000)
MODELS = (SMALL, SMALL, model("middle", layers=6, layer=GB, kv=2000), model("big", layers=9, layer=GB, ends=(GB, GB)))
NAMES = ("ann", "bob", "cyn", "dan", "eve", "fay", "gus", "hal")
SIZES = (1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8)


class Cluster:
    def __init__(self, seed: int, make: Callable[..., Member] = Member) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.chance)
        self.faults = False
        self.pids = count(100)
        names = NAMES[: self.chance.choice(SIZES)]
        profiles = [node(name, self.chance.choice([6, 8, 8, 12]) * GB) for name in names]
        self.machines = {p.node: Machine(self, p, self.chance.uniform(-1e4, 1e4), make) for p in profiles}
        self.laws = ClusterLaws({p.node: p.memory_free_bytes for p in profiles})
        self.clients = Clients(self)
        self.trace: deque[tuple[float, str, m.Event | m.Effect | str]] = deque(maxlen=TRACE_MAX)
        self.told: Counter[str] = Counter()
        self.evicted: set[ModelId] = set()  # to make room for another
        self.renamed = 0

    # ------------------------------------------------------------ a whole run

    def run(self) -> None:
        """Raises LawBroken with seed and trace."""
        machines = list(self.machines.values())
        if self.chance.random() < 0.4:
            self.chance.choice(machines).wanted = m.RingWanted(self.chance.choice(MODELS), self._wish())
        for machine in machines:
            self._later(self.chance.uniform(0.0, 2.0), machine.boot)
        for _ in range(self.chance.randrange(2, 12)):
            self._later(self.chance.uniform(2.0, START_S + FAULTS_S), self._ask)
        self._every(0.5, self._watch)
        self.clock.until(START_S)
        self.faults = True
        self.network.rough()
        for _ in range(self.chance.randrange(1, 9)):
            self._later(self.chance.uniform(0.0, FAULTS_S), self._fault)
        self.clock.until(START_S + FAULTS_S)
        self._calm_down()
        self.clock.until(self.clock.now + MASTER_S)
        self._one_master()
        last = [self._ask_for(SMALL, m.PlanWish(1000), CALM_S - MASTER_S - 0.5) for _ in range(2)]
        self.clock.until(self.clock.now + CALM_S)
        self._drained(last)
        self._lose_the_master()

    def step(self, machine: Machine, event: m.Event) -> list[m.Effect]:
        """One step of one node; the laws see it."""
        quiet = isinstance(event, m.Ticked | m.NodeReported) or (
            isinstance(event, m.Heard) and isinstance(event.word, m.Beat)
        )
        if not quiet:
            self.note(machine.node, event)
        try:
            effects = machine.member.step(event, machine.now)
            for effect in effects:
                if not (isinstance(effect, m.Send) and isinstance(effect.word, m.Beat)):
                    self.note(machine.node, effect)
                self.renamed += isinstance(effect, m.RenameShard)
                if isinstance(effect, m.Tell):
                    self.told[effect.kind] += 1
                    if effect.kind == "ring_unloaded" and effect.model is not None:
                        self.evicted.add(effect.model)
            self.laws.check(machine, event, effects)
            self.laws.after(machine, event)
        except (LawBroken, ArithmeticError, LookupError, AttributeError, TypeError, ValueError) as error:
            self.fail(f"{type(error).__name__}: {error}", error)
        return effects

    def found_by(self, machine: Machine) -> list[NodeId]:
        """Discovery: everybody, as all are on one network."""
        return [other for other in self.machines if other != machine.node]

    def lost(self, why: str) -> RingLost:
        return RingLost(f"{why}; send the request again")

    def note(self, who: str, what: m.Event | m.Effect | str) -> None:
        self.trace.append((self.clock.now, who, what))

    def demand(self, holds: bool, law: str) -> None:
        if not holds:
            self.fail(law)

    def fail(self, why: str, cause: Exception | None = None) -> None:
        lines = "\n".join(f"{at:8.3f} {who:7} {_line(what)}" for at, who, what in self.trace)
        raise LawBroken(f"seed {self.seed} at {self.clock.now:.2f} s: {why}\n{lines}") from cause

    def ring_news(self) -> None:
        """Something happened to a shard or a link: the rings over it notice."""
        for machine in self.machines.values():
            machine.check_sessions()
        self.clients.check_streams()

    # ------------------------------------------------------------ what happens to it

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        self.clock.later(delay, act)

    def _every(self, period: float, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self.clock.later(period, again)

        self.clock.later(period, again)

    def _watch(self) -> None:
        self.ring_news()

    def _fault(self) -> None:
        awake = [machine for machine in self.machines.values() if machine.alive and not machine.frozen]
        if not awake or not self.faults:
            return
        machine = self.chance.choice(awake)
        masters = [each for each in awake if each.member.leads]
        if masters and self.chance.random() < 0.4:
            machine = self.chance.choice(masters)
        kind = self.chance.choice(
            ["crash", "crash", "cut", "cut", "one way", "split", "freeze", "sleep", "kill", "quit"]
        )
        self.note(machine.node, f"*** {kind}")
        match kind:
            case "crash" | "quit":
                if kind == "quit":
                    machine.hear(m.StopAsked())
                machine.crash()
                self._later(self.chance.choice([0.3, 2.0, 6.0]), lambda: None if machine.alive else machine.boot())
            case "freeze":
                machine.freeze(self.chance.choice([0.5, 1.5, 3.0, 6.0]))
            case "sleep":
                machine.sleep(self.chance.choice([1.0, 3.0, 6.0]))
            case "kill":
                processes = sorted(machine.processes.values(), key=lambda process: process.pid)
                if processes:
                    machine.end(self.chance.choice(processes), "killed")
            case _:
                self._cut(machine, kind)

    def _cut(self, machine: Machine, kind: str) -> None:
        others = [node for node in self.machines if node != machine.node]
        if not others:
            return
        side = {machine.node}
        if kind == "split":
            side |= {node for node in others if self.chance.random() < 0.5}
        there = [self.chance.choice(others)] if kind != "split" else [node for node in others if node not in side]
        pairs = {(a, b) for a in side for b in there}
        if kind != "one way":
            pairs |= {(b, a) for a, b in pairs}
        self.network.cut |= pairs
        told = self.chance.random() < 0.5
        for a, b in sorted(pairs):
            if told:
                self._disconnect(a, b)
        self.ring_news()
        self._later(self.chance.choice([0.5, 2.0, 5.0, 9.0]), lambda: self._heal(pairs))

    def _disconnect(self, a: NodeId, b: NodeId) -> None:
        if b in self.machines[a].connected:
            self.machines[a].connected.discard(b)
            self.machines[a].soon(0.3, m.PeerDown(b, "the stream broke"))

    def _heal(self, pairs: set[tuple[NodeId, NodeId]]) -> None:
        self.network.cut -= pairs

    def _ask(self) -> None:
        alive = [machine for machine in self.machines.values() if machine.alive]
        if not alive:
            return
        job = self._ask_for(self.chance.choice(MODELS), self._wish(), self.chance.uniform(0.5, 7.0))
        if self.chance.random() < 0.15:
            self._later(self.chance.expovariate(1.0), lambda: self.clients.leave(job))

    def _ask_for(self, costs: ModelCosts, wish: m.PlanWish, patience: float) -> Job:
        ingress = self.chance.choice([machine for machine in self.machines.values() if machine.alive])
        return self.clients.ask(ingress, costs, wish, patience)

    def _wish(self) -> m.PlanWish:
        return m.PlanWish(1000, shards=self.chance.choice([None, None, 2, 3]))

    # ------------------------------------------------------------ calm

    def _calm_down(self) -> None:
        self.note("world", "*** calm")
        self.faults = False
        self.network.calm()
        for machine in self.machines.values():
            if not machine.alive:
                machine.boot()
            elif machine.asleep:
                machine.wake()
            elif machine.frozen:
                machine.thaw()

    def _one_master(self) -> None:
        terms = {machine.member.master for machine in self.machines.values() if machine.alive}
        leaders = [machine.node for machine in self.machines.values() if machine.alive and machine.member.leads]
        if len(terms) != 1 or None in terms or len(leaders) != 1:
            self.fail(f"{MASTER_S} s of calm, and the nodes follow {terms}; leading: {leaders}")

    def _drained(self, last: list[Job]) -> None:
        for job in self.clients.jobs:
            self.demand(bool(job.end), f"{job.name} never ended")
        for job in last:
            given_up = isinstance(job.error, RingLost | ModelDoesNotFit)
            self.demand(job.end == "finished" or given_up, f"{job.name} was not answered when all was well: {job.end}")
        self.demand(not self.laws.live(), f"requests live on that no client waits for: {self.laws.live()}")
        sessions = [s for machine in self.machines.values() for s in machine.sessions.values() if s.open]
        self.demand(not any(s.running for s in sessions), "slots are in use, and no request lives")

    def _lose_the_master(self) -> None:
        """Law: nothing is unloaded and no shard restarts because a master died."""
        (master,) = [machine for machine in self.machines.values() if machine.member.leads]
        if len(self.machines) == 1:
            return
        spared = self._spared(master)
        self.evicted.clear()
        self.note(master.node, "*** the master is killed, with all well")
        if self.chance.random() < 0.3:
            master.hear(m.StopAsked())
        master.crash()
        for _ in range(3):
            self._later(self.chance.uniform(0.0, MASTER_S), self._ask)  # who asks meanwhile gets no second ring
        self.clock.until(self.clock.now + MASTER_S)
        self._one_master()
        self.clock.until(self.clock.now + MASTER_S)
        for session in spared:
            if session.processes[0].plan.model in self.evicted:
                continue
            for process in session.processes:
                self.demand(
                    not process.dead and not process.stopping,
                    f"shard {process.index} of {process.plan.model} on {process.node} ended because the master died",
                )
            adopted = [s for machine in self.machines.values() for s in machine.sessions.values() if s.open]
            self.demand(session.plan in {s.plan for s in adopted}, f"nobody took {session.plan[:6]} over")

    def _spared(self, master: Machine) -> list[Session]:
        """Rings that serve and have no shard on the master's own machine."""
        serving = [s for s in master.sessions.values() if s.whole]
        return [s for s in serving if all(process.node != master.node for process in s.processes)]


def _line(what: m.Event | m.Effect | str) -> str:
    if isinstance(what, str):
        return what
    return f"  -> {short(what)}" if isinstance(what, m.Effect) else short(what)


def short(thing: m.Event | m.Effect) -> str:
    """One line of the trace."""
    match thing:
        case m.Heard(peer, m.StartOrder() as order) | m.Send(peer, m.StartOrder() as order):
            plan = order.assignment.plan
            where = f"{plan.model} {plan.hash[:6]}/{order.index} attempt {order.attempt}"
            return f"{type(thing).__name__} {peer} StartOrder {order.term.number} {where}"
        case m.Heard(peer, m.StopOrder() as order) | m.Send(peer, m.StopOrder() as order):
            return f"{type(thing).__name__} {peer} StopOrder {order.term.number} {order.plan[:6]}/{order.index}"
        case m.RunShard(assignment, index):
            return f"RunShard {assignment.plan.model} {assignment.plan.hash[:6]}/{index}"
        case m.RenameShard(plan, index, assignment, new):
            return f"RenameShard {plan[:6]}/{index} to {assignment.plan.hash[:6]}/{new}"
        case m.EndShard(plan, index) | m.ShardDied(plan, index):
            return f"{type(thing).__name__} {plan[:6]}/{index}"
        case m.LinkRing(plan, epoch):
            return f"LinkRing {plan[:6]} epoch {epoch:x}"
        case m.RequestArrived():
            return f"RequestArrived {thing.request} until {thing.deadline:.2f}"
        case m.RingWanted():
            return f"RingWanted {thing.costs.model}"
        case m.Tell():
            return f"[{thing.kind}] {thing.text}"
        case m.FailRequest():
            return f"FailRequest {thing.request} {type(thing.error).__name__}: {thing.error}"
    return repr(thing)
