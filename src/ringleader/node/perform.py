"""Carries out what the cluster decided, in order, and feeds what comes of it back as events. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ringleader.cluster.messages import (
    CancelAtHead,
    CloseRing,
    Dispatch,
    Effect,
    Event,
    FailRequest,
    LinkRing,
    RequestEnded,
    RingBroke,
    RingLinked,
    ShardDied,
    StartShard,
    StopShard,
    Tell,
)
from ringleader.errors import RingleaderError, RingLost
from ringleader.net.control import ControlServer, StartOrder, StopOrder
from ringleader.net.ring import RingClient
from ringleader.node.answer import Desk
from ringleader.node.shelf import Shelf
from ringleader.node.supervisor import ShardStart, Supervisor
from ringleader.values import NodeId, PlanHash

log = logging.getLogger("ringleader.node")


class Performer:
    """The master's hands: its own shards, its followers', its rings, its requests."""

    def __init__(
        self,
        me: NodeId,
        host: str,
        tell: Callable[[Event], None],
        shelf: Shelf,
        supervisor: Supervisor,
        control: ControlServer,
        desk: Desk,
    ) -> None:
        self._me = me
        self._host = host
        self._tell = tell
        self._shelf = shelf
        self._supervisor = supervisor
        self._control = control
        self._desk = desk
        self._rings: dict[PlanHash, RingClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def perform(self, effect: Effect) -> None:
        """Carry out one effect, or begin to; never waits."""
        match effect:
            case StartShard():
                self._start_shard(effect)
            case StopShard():
                self._stop_shard(effect)
            case LinkRing():
                self._spawn(self._link(effect))
            case CloseRing(plan):
                self._close(plan)
            case Dispatch(request, plan):
                try:
                    self._desk.dispatch(request, self._ring(plan))
                except RingLost as error:
                    self._desk.fail(request, error)
                    self._tell(RequestEnded(request))
            case CancelAtHead(request, plan):
                if (ring := self._rings.get(plan)) is not None:
                    ring.cancel(request)
            case FailRequest(request, error):
                self._desk.fail(request, error)
            case Tell(text):
                log.info("%s", text)

    def _ring(self, plan: PlanHash) -> RingClient:
        if (ring := self._rings.get(plan)) is None:
            raise RingLost(f"the ring of plan {plan[:8]} is not connected")
        return ring

    def _start_shard(self, order: StartShard) -> None:
        plan, stage = order.plan, order.plan.stages[order.index]
        entry = self._shelf.known(plan.model)
        if order.node == self._me:
            self._supervisor.start(
                ShardStart(
                    plan=plan.hash,
                    index=order.index,
                    directory=Path(entry.directory),
                    layers=stage.layers,
                    layer_count=plan.layers,
                    host=self._host,
                    kv_tokens_max=plan.kv_tokens,
                )
            )
            return
        start = StartOrder(
            plan=plan.hash,
            index=order.index,
            model=entry.reference,
            digest=plan.digest,
            layers=stage.layers,
            layer_count=plan.layers,
            kv_tokens=plan.kv_tokens,
        )
        if not self._control.order(order.node, start):
            self._tell(ShardDied(plan.hash, order.index, "its node takes no orders"))

    def _stop_shard(self, order: StopShard) -> None:
        if order.node == self._me:
            self._spawn(self._supervisor.stop(order.plan, order.index))
        else:
            self._control.order(order.node, StopOrder(order.plan, order.index))

    async def _link(self, order: LinkRing) -> None:
        self._close(order.plan)
        ring = RingClient(
            plan=order.plan,
            epoch=order.epoch,
            on_tokens=self._desk.tokens,
            on_break=lambda reason: self._tell(RingBroke(order.plan, order.epoch, reason)),
        )
        self._rings[order.plan] = ring
        try:
            await ring.open(order.addresses)
        except (RingleaderError, TimeoutError) as error:
            await ring.close()
            self._tell(RingBroke(order.plan, order.epoch, str(error) or "linking took too long", ring.silent))
        else:
            self._tell(RingLinked(order.plan, order.epoch))

    def _close(self, plan: PlanHash) -> None:
        if (ring := self._rings.pop(plan, None)) is not None:
            self._spawn(ring.close())

    def _spawn(self, coroutine) -> None:  # type: ignore[no-untyped-def]  # any coroutine that returns nothing
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Hang up on every ring and end this node's shards."""
        for plan in list(self._rings):
            self._close(plan)
        await self._supervisor.stop_all()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
