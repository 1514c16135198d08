"""Carries out what the cluster decided, in order, and feeds what comes of it back as events. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringleader.cluster import messages as m
from ringleader.errors import NodeUnreachable, RingleaderError, RingLost
from ringleader.models.headers import read_costs
from ringleader.net.mesh import Mesh
from ringleader.net.ring import RingClient
from ringleader.node.answer import Desk
from ringleader.node.mastership import Mastership
from ringleader.node.shelf import Shelf
from ringleader.node.supervisor import ShardStart, Supervisor
from ringleader.node.wording import to_bytes
from ringleader.trust.credentials import Credentials, write_term
from ringleader.values import Coding, PlanHash

RINGS_CLOSE_S = 5.0  # to hang up on heads that do not answer

log = logging.getLogger("ringleader.node")

Place = tuple[PlanHash, int]


@dataclass(slots=True)
class _Finding:
    """A shard whose files are being looked for, under its present name. It can be renamed or given up meanwhile."""

    assignment: m.Assignment
    index: int

    @property
    def place(self) -> Place:
        return self.assignment.plan.hash, self.index


class Hands:
    """A node's hands: its words, its shards, and while it leads its rings and requests."""

    def __init__(
        self,
        *,
        tell: Callable[[m.Event], None],
        state: Path,
        listen_host: str,
        credentials: Credentials | None,
        shelf: Shelf,
        supervisor: Supervisor,
        mesh: Mesh,
        desk: Desk,
        mastership: Mastership,
        wire: Coding = "same",
        drafts: bool = True,
    ) -> None:
        self._tell = tell
        self._state = state
        self._listen_host = listen_host
        self._credentials = credentials
        self._shelf = shelf
        self._supervisor = supervisor
        self._mesh = mesh
        self._desk = desk
        self._mastership = mastership
        self._wire: Coding = wire
        self._drafts = drafts
        self._rings: dict[PlanHash, RingClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finding: dict[Place, _Finding] = {}

    def perform(self, effect: m.Effect) -> None:
        """Carry out one effect, or begin to; waits for nothing but the disk that keeps a term."""
        match effect:
            case m.Send(to, word):
                self._mesh.send(to, to_bytes(word))
            case m.Dial(addresses, node):
                self._mesh.dial(addresses, node)
            case m.Redial():
                self._mesh.redial()
            case m.PersistTerm(number):
                write_term(self._state, number)
            case m.FollowMaster(term):
                self._mastership.follow(term)
            case m.Tell(text):
                log.info("%s", text)
            case m.RunShard() | m.EndShard() | m.RenameShard():
                self._shard(effect)
            case _:
                self._lead(effect)

    def _shard(self, effect: m.RunShard | m.EndShard | m.RenameShard) -> None:
        match effect:
            case m.RunShard(assignment, index):
                finding = _Finding(assignment, index)
                self._finding[finding.place] = finding
                self._spawn(self._run_shard(finding))
            case m.EndShard(plan, index):
                if self._finding.pop((plan, index), None) is not None:
                    self._tell(m.ShardDied(plan, index, "it was stopped before it was started"))
                self._spawn(self._supervisor.stop(plan, index))
            case m.RenameShard(plan, index, assignment, new_index):
                self._shelf.learn(assignment.plan.model, assignment.reference)
                if (found := self._finding.pop((plan, index), None)) is not None:
                    found.assignment, found.index = assignment, new_index
                    self._finding[found.place] = found
                self._supervisor.rename(plan, index, assignment.plan.hash, new_index)

    def _lead(self, effect: m.Effect) -> None:
        """What only a master is told to do."""
        match effect:
            case m.LinkRing():
                self._close(effect.plan)
                self._rings[effect.plan] = linking = self._ring_client(effect)
                self._spawn(self._link(effect, linking))
            case m.CloseRing(plan):
                self._close(plan)
            case m.Dispatch(request, plan):
                try:
                    self._desk.dispatch(request, self._ring(plan))
                except RingLost as error:
                    self._desk.fail(request, error)
                    self._tell(m.RequestEnded(request))
            case m.CancelAtHead(request, plan):
                if (ring := self._rings.get(plan)) is not None:
                    ring.cancel(request)
            case m.FailRequest(request, error):
                self._desk.fail(request, error)

    # ------------------------------------------------------------ this node's shards

    async def _run_shard(self, finding: _Finding) -> None:
        try:
            directory = await asyncio.to_thread(self._find, finding.assignment)
            draft_model = await asyncio.to_thread(self._find_draft_model, finding)
        except (RingleaderError, OSError) as error:
            if self._found(finding):
                self._tell(m.ShardDied(*finding.place, str(error), permanent=True))
            return
        except Exception as error:  # a task's root: whoever waits for this shard must hear of it
            log.exception("shard %d of %s cannot be started", finding.index, finding.assignment.plan.model)
            if self._found(finding):
                self._tell(m.ShardDied(*finding.place, f"a fault of ringleader itself: {error!r}", permanent=True))
            return
        if not self._found(finding):
            return
        plan = finding.assignment.plan
        self._supervisor.start(
            ShardStart(
                plan=plan.hash,
                index=finding.index,
                directory=directory,
                layers=plan.stages[finding.index].layers,
                layer_count=plan.layers,
                host=self._listen_host,
                kv_tokens_max=plan.kv_tokens,
                digest=plan.digest,
                kv_bits=plan.kv_bits,
                draft_model=draft_model,
            )
        )

    def _found(self, finding: _Finding) -> bool:
        """Whether the shard is still wanted; it is looked for no more."""
        if self._finding.get(finding.place) is not finding:
            return False
        del self._finding[finding.place]
        return True

    def _find(self, assignment: m.Assignment) -> Path:
        """The model's directory here; the same files as the master's, or an error that says so."""
        plan, reference = assignment.plan, assignment.reference or assignment.plan.model
        directory = self._shelf.store.resolve(reference)
        if read_costs(directory, plan.model).digest != plan.digest:
            raise NodeUnreachable(f"{directory} holds other files than the master's {plan.model}; pull it again")
        self._shelf.learn(plan.model, reference)
        return directory

    def _find_draft_model(self, finding: _Finding) -> Path | None:
        """The directory here of the model that makes drafts at the head of the plan; without it, there are none."""
        draft = finding.assignment.plan.draft
        if draft is None or finding.index > 0:
            return None
        try:
            return self._shelf.store.resolve(draft.reference)
        except RingleaderError as error:
            log.warning("%s is served without drafts of a model: %s", finding.assignment.plan.model, error)
            return None

    # ------------------------------------------------------------ the master's rings

    def _ring(self, plan: PlanHash) -> RingClient:
        if (ring := self._rings.get(plan)) is None:
            raise RingLost(f"the ring of plan {plan[:8]} is not connected")
        return ring

    def _ring_client(self, order: m.LinkRing) -> RingClient:
        return RingClient(
            plan=order.plan,
            epoch=order.epoch,
            on_tokens=self._desk.tokens,
            on_break=lambda reason: self._tell(m.RingBroke(order.plan, order.epoch, reason)),
            credentials=self._credentials,
            nodes=() if order.whole is None else tuple(stage.node for stage in order.whole.stages),
            term=order.term,
            whole=order.whole,
            coding=self._wire,
            drafts=self._drafts,
        )

    async def _link(self, order: m.LinkRing, ring: RingClient) -> None:
        try:
            await ring.open(order.addresses)
        except (RingleaderError, TimeoutError) as error:
            await ring.close()
            self._tell(m.RingBroke(order.plan, order.epoch, str(error) or "linking took too long", ring.silent))
        except Exception as error:  # a task's root: whoever waits for this ring must hear of it
            log.exception("the ring of plan %s cannot be linked", order.plan[:8])
            await ring.close()
            self._tell(m.RingBroke(order.plan, order.epoch, f"a fault of ringleader itself: {error!r}"))
        else:
            self._tell(m.RingLinked(order.plan, order.epoch))

    def _close(self, plan: PlanHash) -> None:
        if (ring := self._rings.pop(plan, None)) is not None:
            self._spawn(ring.close())

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an order could not be carried out", exc_info=error)

    async def close(self) -> None:
        """Hang up on every ring and end this node's shards."""
        self._finding.clear()  # whoever looks for files starts nothing any more
        for plan in list(self._rings):
            self._close(plan)
        await self._supervisor.stop_all()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=RINGS_CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
