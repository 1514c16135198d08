"""One simulated machine: a node process that may die, stand still or sleep, its shards, and its hands on rings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.cluster.plan import Plan
from ringleader.values import NodeId, PlanHash, RequestId

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

TICK_S = 0.15  # a little lazier than the product's tenth: the laws must hold all the same
REPORT_S = 2.0
DIAL_S = 0.3
LINK_S = 2.0

Fence = tuple[int, NodeId, int]


@dataclass(eq=False)
class Process:
    """A shard process. `fence` is the highest that linked it; a link of another plan gives it that plan's name."""

    pid: int
    node: NodeId
    assignment: m.Assignment
    index: int
    progress: float = 0.0
    ready: bool = False
    stopping: bool = False
    dead: bool = False
    fence: Fence = (0, NodeId(""), 0)

    @property
    def plan(self) -> Plan:
        return self.assignment.plan

    @property
    def resident(self) -> int:
        return int(self.plan.stages[self.index].weight_bytes * self.progress)


@dataclass(eq=False)
class Session:
    """A ring that a master linked: it answers while every process of it lives under this fence."""

    master: NodeId
    life: int
    plan: PlanHash
    epoch: int
    fence: Fence
    processes: list[Process]
    running: dict[RequestId, int] = field(default_factory=dict)  # and the next position of each
    open: bool = True

    @property
    def whole(self) -> bool:
        return self.open and all(not p.dead and p.fence == self.fence for p in self.processes)


class Machine:
    """`offset` sets its monotonic clock apart from the world's."""

    def __init__(self, world: Cluster, profile: m.NodeProfile, offset: float, make: Callable[..., Member]) -> None:
        self.world = world
        self.profile = profile
        self.node = profile.node
        self.offset = offset
        self.persisted = 0
        self.life = 0
        self.alive = False
        self.frozen = False
        self.asleep = False
        self._slept_at = 0.0
        self.member: Member
        self._make = make
        self.processes: dict[tuple[PlanHash, int], Process] = {}
        self.sessions: dict[PlanHash, Session] = {}
        self.dialled: set[NodeId] = set()
        self.connected: set[NodeId] = set()
        self._missed: deque[m.Event] = deque()
        self.follows: m.Term | None = None
        self.wanted: m.RingWanted | None = None

    @property
    def now(self) -> float:
        return self.world.clock.now + self.offset

    # ------------------------------------------------------------ its life

    def boot(self) -> None:
        self.life += 1
        self.alive, self.frozen, self.asleep, self.follows = True, False, False, None
        self.processes, self.sessions, self.dialled, self.connected = {}, {}, set(), set()
        self._missed.clear()
        self.member = self._make(self.profile, incarnation=self.life, persisted_term=self.persisted)
        self.world.laws.booted(self)
        for other in self.world.found_by(self):
            self.hear(m.PeerFound((other,), other))
        if self.wanted is not None:
            self.hear(self.wanted)
        self._every(TICK_S, lambda: self.hear(m.Ticked()))
        self._every(REPORT_S, self._report)
        self._every(DIAL_S, self._redial)

    def crash(self) -> None:
        """Like SIGKILL, or (nobody's socket tells) like a cable that is pulled."""
        self.alive = False
        for process in self.processes.values():
            process.dead = True
        told = self.world.chance.random() < 0.6
        for other in self.world.machines.values():
            if self.node in other.connected:
                other.connected.discard(self.node)
                if told:
                    other.soon(0.2, m.PeerDown(self.node, "the stream ended"))
        self.world.ring_news()

    def freeze(self, seconds: float) -> None:
        """The node process stands still; its shards, and what is sent to it, do not."""
        self.frozen = True
        self._if_alive_after(seconds, self.thaw)

    def thaw(self) -> None:
        """What came meanwhile is heard now, late."""
        if not self.asleep:
            self.frozen = False
            while self._missed and not self.frozen:
                self.hear(self._missed.popleft())

    def sleep(self, seconds: float) -> None:
        """The whole machine stops, its clock too; streams to it die sooner or later."""
        self.frozen = self.asleep = True
        self._slept_at = self.world.clock.now
        self._if_alive_after(seconds, self.wake)

    def wake(self) -> None:
        """From its sleep, if it sleeps."""
        if not self.asleep:
            return
        slept_s = self.world.clock.now - self._slept_at
        self.offset -= slept_s
        self.frozen = self.asleep = False
        for other in self.world.machines.values():
            if self.node in other.connected:
                other.connected.discard(self.node)
                other.soon(0.2, m.PeerDown(self.node, "the stream ended"))
        self.hear(m.Woke(slept_s))
        self.thaw()
        self.world.ring_news()

    def _every(self, period: float, act: Callable[[], None]) -> None:
        life = self.life

        def again() -> None:
            if self.alive and self.life == life:
                if not self.frozen:
                    act()
                self.world.clock.later(period, again)

        self.world.clock.later(self.world.chance.uniform(0.0, period), again)

    def _if_alive_after(self, delay: float, act: Callable[[], None]) -> None:
        life = self.life

        def then() -> None:
            if self.alive and self.life == life:
                act()

        self.world.clock.later(delay, then)

    def soon(self, within: float, event: m.Event) -> None:
        self._if_alive_after(self.world.chance.uniform(0.0, within), lambda: self.hear(event))

    # ------------------------------------------------------------ its loop

    def hear(self, event: m.Event) -> None:
        """One step of the product, its laws, and what its effects set off."""
        if not self.alive or (self.asleep and isinstance(event, m.Heard | m.PeerUp | m.PeerDown)):
            return
        if self.frozen:
            self._missed.append(event)
            return
        effects = self.world.step(self, event)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: m.Effect) -> None:
        match effect:
            case m.Send(to, word):
                if to in self.connected:
                    other, me = self.world.machines[to], self.node
                    self.world.network.carry(me, to, lambda: other.hear(m.Heard(me, word)))
            case m.PersistTerm(number):
                self.persisted = number
            case m.Dial(_, node) if node is not None:
                self.dialled.add(node)
            case m.Redial():
                for node in sorted(self.connected):
                    self.soon(0.05, m.PeerDown(node, "it is dialled anew"))
                self.connected.clear()
            case m.FollowMaster(term):
                self.follows = term
                self.world.clients.master_changed(self)
            case m.RunShard() | m.EndShard() | m.RenameShard():
                self._shard(effect)
            case m.LinkRing():
                self._close(effect.plan)
                self._if_alive_after(self.world.chance.uniform(0.01, 0.3), lambda: self._link(effect))
            case m.CloseRing(plan):
                self._close(plan)
            case m.Dispatch(request, plan):
                self._dispatch(request, plan)
            case m.CancelAtHead(request, plan):
                if (session := self.sessions.get(plan)) is not None:
                    session.running.pop(request, None)
            case m.FailRequest(request, error):
                self.world.clients.failed(self, request, error)

    def _report(self) -> None:
        held = sum(process.resident for process in self.processes.values())
        self.hear(m.NodeReported(self.node, self.profile.memory_free_bytes - held))

    def _redial(self) -> None:
        for node in sorted(self.dialled - self.connected):
            other = self.world.machines[node]
            if other.alive and not other.asleep and self.world.network.both_ways(self.node, node):
                self.connected.add(node)
                self.hear(m.PeerUp(node))

    # ------------------------------------------------------------ its shards

    def _shard(self, effect: m.RunShard | m.EndShard | m.RenameShard) -> None:
        match effect:
            case m.RunShard(assignment, index):
                assert (assignment.plan.hash, index) not in self.processes, "two processes of one place"
                process = Process(next(self.world.pids), self.node, assignment, index)
                self.processes[assignment.plan.hash, index] = process
                self._load(process)
            case m.EndShard(plan, index):
                process = self.processes[plan, index]
                process.stopping = True
                self._if_alive_after(self.world.chance.uniform(0.0, 0.5), lambda: self.end(process, "stopped"))
            case m.RenameShard(plan, index, assignment, new_index):
                process = self.processes.pop((plan, index))
                process.assignment, process.index = assignment, new_index
                self.processes[assignment.plan.hash, new_index] = process

    def _load(self, process: Process) -> None:
        chance = self.world.chance
        if self.world.faults and chance.random() < 0.06:
            self._if_alive_after(chance.uniform(0.0, 1.0), lambda: self.end(process, "out of luck"))
            return

        def ready() -> None:
            if not process.dead and not process.stopping:
                process.ready, process.progress = True, 1.0
                address = f"{self.node}:{process.pid}"
                place = (process.plan.hash, process.index)
                self.hear(m.ShardBecameReady(*place, address, process.resident, process.pid))

        def half() -> None:
            if not process.dead and not process.stopping:
                process.progress = 0.5
                self.hear(m.ShardMadeProgress(process.plan.hash, process.index, 0.5))

        took = chance.uniform(0.05, 1.2)
        self._if_alive_after(took / 2, half)
        self._if_alive_after(took, ready)

    def end(self, process: Process, reason: str) -> None:
        place = (process.plan.hash, process.index)
        if self.processes.get(place) is process:
            process.dead = True
            del self.processes[place]
            self.hear(m.ShardDied(*place, reason))
            self.world.ring_news()

    # ------------------------------------------------------------ its hands on rings

    def _link(self, order: m.LinkRing) -> None:
        if not self.alive or order.whole is None:
            return
        fence = (order.term.number, order.term.node, order.epoch)
        found = [self._shard_at(address, order.whole, i) for i, address in enumerate(order.addresses)]
        unlucky = self.world.faults and self.world.chance.random() < 0.05
        processes = [process for process in found if process is not None and process.fence < fence]
        if unlucky or len(processes) < len(found):
            self.hear(m.RingBroke(order.plan, order.epoch, "a shard does not answer"))
            return
        for process in processes:
            process.fence = fence
        self.sessions[order.plan] = Session(self.node, self.life, order.plan, order.epoch, fence, processes)
        self.world.ring_news()
        self.hear(m.RingLinked(order.plan, order.epoch))

    def _shard_at(self, address: str, plan: Plan, index: int) -> Process | None:
        node = plan.stages[index].node
        machine = self.world.machines[node]
        near = self.world.network.both_ways(self.node, node) and machine.alive and not machine.asleep
        for process in machine.processes.values() if near else []:
            own = process.plan.stages[process.index]
            if f"{node}:{process.pid}" == address and process.ready and own.layers == plan.stages[index].layers:
                return process
        return None

    def _close(self, plan: PlanHash) -> None:
        if (session := self.sessions.pop(plan, None)) is not None:
            session.open = False

    def _dispatch(self, request: RequestId, plan: PlanHash) -> None:
        session = self.sessions.get(plan)
        if session is None or not session.open:
            self.world.clients.failed(self, request, self.world.lost("the ring is not connected"))
            self._if_alive_after(0.0, lambda: self.hear(m.RequestEnded(request)))
            return
        session.running[request] = 0
        self.world.clients.started(self, session, request)

    def check_sessions(self) -> None:
        """Tell of rings that are broken, once."""
        for session in list(self.sessions.values()):
            reach = all(self.world.network.both_ways(self.node, p.node) for p in session.processes)
            if session.open and not (session.whole and reach):
                session.open = False
                self.soon(0.5, m.RingBroke(session.plan, session.epoch, "a link was cut"))
