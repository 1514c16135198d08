"""Clients at any node, and the ingress that serves them: it asks the master, and asks the next one when that is lost.

An ingress sends the ids that came already along, so that the answer goes on where it stood (law 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ringleader.cluster import messages as m
from ringleader.errors import RingleaderError
from ringleader.values import ModelCosts, NodeId, RequestId

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.machine import Machine, Session

AGAIN_S = 0.2
TOKEN_S = 0.1


@dataclass(eq=False)
class Attempt:
    """One submission of a job to one process of one master. `at` is when its last token arrived or will."""

    request: RequestId
    job: Job
    master: NodeId
    life: int
    prefix: int
    broken: bool = False
    at: float = 0.0


@dataclass(eq=False)
class Job:
    """What one client wants. `got` are the tokens that it has; `end` how it ended."""

    name: str
    costs: ModelCosts
    wish: m.PlanWish
    ingress: NodeId
    life: int
    deadline: float
    tokens: int
    got: list[int] = field(default_factory=list)
    end: str = ""
    error: RingleaderError | None = None
    attempts: int = 0
    resumed: bool = False  # went on elsewhere after its first tokens
    attempt: Attempt | None = None


class Clients:
    """All of them. The laws of what a client sees are checked here."""

    def __init__(self, world: Cluster) -> None:
        self.world = world
        self.jobs: list[Job] = []
        self._attempts: dict[RequestId, Attempt] = {}

    def ask(self, ingress: Machine, costs: ModelCosts, wish: m.PlanWish, patience: float) -> Job:
        tokens = self.world.chance.randrange(1, 12)
        deadline = self.world.clock.now + patience
        job = Job(f"r{len(self.jobs)}-{costs.model}", costs, wish, ingress.node, ingress.life, deadline, tokens)
        self.jobs.append(job)
        self.world.clock.later(patience, lambda: self._end(job, "deadline"))
        self._submit(job)
        return job

    def leave(self, job: Job) -> None:
        self._end(job, "cancelled")

    # ------------------------------------------------------------ the ingress

    def _submit(self, job: Job) -> None:
        ingress = self.world.machines[job.ingress]
        if job.end or job.attempt is not None:
            return
        if not ingress.alive or ingress.life != job.life:
            self._end(job, "ingress gone")
            return
        if ingress.follows is None:
            return  # until it follows one
        master = self.world.machines[ingress.follows.node]
        job.attempts += 1
        job.resumed = job.resumed or bool(job.got)
        name = RequestId(f"{job.name}.{job.attempts}")
        attempt = Attempt(name, job, master.node, master.life, len(job.got), at=self.world.clock.now)
        job.attempt = self._attempts[name] = attempt
        if master is ingress:
            self._arrive(attempt)
        else:
            self.world.clock.later(self.world.network.delay(), lambda: self._arrive(attempt))

    def _arrive(self, attempt: Attempt) -> None:
        master, job = self.world.machines[attempt.master], attempt.job
        if not self._connected(attempt) or master.asleep:
            self._break(attempt)
        elif job.attempt is attempt:
            master.hear(m.RequestArrived(attempt.request, job.costs, job.wish, job.deadline + master.offset))

    def _connected(self, attempt: Attempt) -> bool:
        master = self.world.machines[attempt.master]
        here = self.world.machines[attempt.job.ingress]
        same = master.alive and master.life == attempt.life
        return same and self.world.network.both_ways(here.node, master.node)

    def master_changed(self, ingress: Machine) -> None:
        """The ingress has another master, or none: what ran at the old one is asked again."""
        for job in self.jobs:
            if job.ingress == ingress.node and not job.end:
                if job.attempt is not None and not self._connected(job.attempt):
                    self._break(job.attempt)
                self.world.clock.later(0.0, partial(self._submit, job))

    def check_streams(self) -> None:
        """Streams that can carry nothing any more are found out, sooner or later."""
        for job in self.jobs:
            if not job.end and job.attempt is not None and not self._connected(job.attempt):
                self._break(job.attempt)
            elif not job.end and self.world.machines[job.ingress].life != job.life:
                self._end(job, "ingress gone")

    def _break(self, attempt: Attempt) -> None:
        if not attempt.broken:
            attempt.broken = True
            self.world.clock.later(self.world.chance.uniform(0.05, 1.0), lambda: self._give_up(attempt))

    def _give_up(self, attempt: Attempt) -> None:
        self._cancel(attempt)
        if attempt.job.attempt is attempt:
            attempt.job.attempt = None
            self.world.clock.later(AGAIN_S, lambda: self._submit(attempt.job))

    def _cancel(self, attempt: Attempt) -> None:
        """The master notices that nobody reads this stream any more."""
        master = self.world.machines[attempt.master]
        if master.alive and master.life == attempt.life:
            master.soon(0.3, m.RequestCancelled(attempt.request))

    def failed(self, master: Machine, request: RequestId, error: RingleaderError) -> None:
        """The master ended the attempt with an error."""
        attempt = self._attempts[request]

        def arrive() -> None:
            job = attempt.job
            if job.attempt is not attempt or attempt.broken:
                return
            if not self._connected(attempt):
                self._break(attempt)
                return
            job.attempt = None
            if error.resumable:
                self.world.clock.later(AGAIN_S, lambda: self._submit(job))
            else:
                job.error = error
                self._end(job, "failed")

        self._in_order(attempt, arrive)

    def _end(self, job: Job, how: str) -> None:
        if job.end:
            return
        job.end = how
        attempt, job.attempt = job.attempt, None
        if attempt is not None and how != "finished":
            self._cancel(attempt)

    # ------------------------------------------------------------ tokens

    def started(self, master: Machine, session: Session, request: RequestId) -> None:
        attempt = self._attempts[request]
        session.running[request] = attempt.prefix
        self.world.clock.later(TOKEN_S, lambda: self._token(master, session, attempt))

    def _token(self, master: Machine, session: Session, attempt: Attempt) -> None:
        """The ring draws the next token: which one depends on nothing but request and position."""
        if not session.whole or attempt.request not in session.running or not master.alive:
            return
        job, position = attempt.job, session.running[attempt.request]
        if position < job.tokens and not master.frozen:
            session.running[attempt.request] += 1
            self._in_order(attempt, lambda: self._receive(attempt, position))
        if session.running[attempt.request] >= job.tokens and not master.frozen:
            del session.running[attempt.request]
            master.hear(m.RequestEnded(attempt.request))
            self._in_order(attempt, lambda: self._finish(attempt))
        else:
            self.world.clock.later(TOKEN_S, lambda: self._token(master, session, attempt))

    def _in_order(self, attempt: Attempt, arrive: Callable[[], None]) -> None:
        attempt.at = max(attempt.at, self.world.clock.now + self.world.network.delay())
        self.world.clock.later(attempt.at - self.world.clock.now, arrive)

    def _receive(self, attempt: Attempt, position: int) -> None:
        job = attempt.job
        if job.attempt is not attempt or attempt.broken:
            return
        if not self._connected(attempt):
            self._break(attempt)
            return
        self.world.demand(position == len(job.got), f"{job.name} got token {position} after {len(job.got)} tokens")
        job.got.append(position)

    def _finish(self, attempt: Attempt) -> None:
        job = attempt.job
        if job.attempt is not attempt or attempt.broken:
            return
        if not self._connected(attempt):
            self._break(attempt)
            return
        self.world.demand(len(job.got) == job.tokens, f"{job.name} ended with {len(job.got)} of {job.tokens} tokens")
        self._end(job, "finished")
