"""A node that obeys a master: joins, starts and stops shards as it is told, reports; joins again when cut off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ringleader.cluster.messages import Event, NodeProfile, NodeReported, ShardDied
from ringleader.errors import NodeUnreachable, RingleaderError
from ringleader.models.headers import read_costs
from ringleader.models.store import Store
from ringleader.net.control import Follower, Order, StartOrder
from ringleader.node import telemetry
from ringleader.node.supervisor import ShardStart, Supervisor
from ringleader.values import ModelId

HEARTBEAT_S = 2.0
REJOIN_FIRST_S = 0.5
REJOIN_MAX_S = 10.0

log = logging.getLogger("ringleader.node")


class FollowerNode:
    """One follower, for as long as its process lives."""

    def __init__(
        self,
        profile: NodeProfile,
        master: str,
        store: Store,
        supervise: Callable[[str, Callable[[Event], None]], Supervisor] = Supervisor,
    ) -> None:
        self._profile = profile
        self._master = master
        self._store = store
        self._supervisor = supervise(profile.name, self._report)
        self._membership: Follower | None = None

    def _report(self, event: Event) -> None:
        if self._membership is not None:
            self._membership.report(event)

    async def run(self) -> None:
        """Obey until cancelled; then end all shards."""
        pause = REJOIN_FIRST_S
        try:
            while True:
                joined = await self._join()
                await self._supervisor.stop_all()  # the plan went with the master
                pause = REJOIN_FIRST_S if joined else min(pause * 2, REJOIN_MAX_S)
                await asyncio.sleep(pause)
        finally:
            await self._supervisor.stop_all()

    async def _join(self) -> bool:
        """One membership, to its end; whether there was one."""
        joined = False

        def welcome(master: str) -> None:
            nonlocal joined
            joined = True
            log.info("Joined. Master is %s at %s. Its API is there.", master, self._master)

        member = self._membership = Follower(self._master, self._profile, self._order)
        beat = asyncio.create_task(self._beat(member), name="heartbeat")
        try:
            await member.run(welcome)
        except NodeUnreachable as error:
            log.warning("%s; trying again", error)
        finally:
            beat.cancel()
            self._membership = None
        return joined

    async def _beat(self, member: Follower) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            member.report(NodeReported(self._profile.node, telemetry.memory_free_bytes()))

    async def _order(self, order: Order) -> None:
        if isinstance(order, StartOrder):
            await self._start(order)
        else:
            await self._supervisor.stop(order.plan, order.index)

    async def _start(self, order: StartOrder) -> None:
        try:
            directory = await asyncio.to_thread(self._find, order)
        except RingleaderError as error:
            why = f"on {self._profile.name}: {error}"
            self._report(ShardDied(order.plan, order.index, why, permanent=True))
            return
        self._supervisor.start(
            ShardStart(
                plan=order.plan,
                index=order.index,
                directory=directory,
                layers=order.layers,
                layer_count=order.layer_count,
                host=self._profile.host,
                kv_tokens_max=order.kv_tokens,
            )
        )

    def _find(self, order: StartOrder) -> Path:
        """The model's directory here; the same files as the master's, or an error that says so."""
        directory = self._store.resolve(order.model)
        if read_costs(directory, ModelId(order.model)).digest != order.digest:
            raise NodeUnreachable(f"{directory} holds other files than the master's {order.model}; pull it again")
        return directory
