"""Puts the rooms together: one inbox, one loop; the cluster decides, the performer does.

async for event in inbox:                          # here
    for effect in state.step(event, clock.now()):  # cluster/state.py decides everything
        perform(effect)                            # node/perform.py does everything
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ringleader.api.app import ApiServer, check_exposure, make_app, serve
from ringleader.cluster.messages import Event, NodeJoined, NodeProfile, NodeReported, PlanWish, RingWanted, Ticked
from ringleader.cluster.state import ClusterState
from ringleader.config import STREAMS_PLANNED, NodeOptions
from ringleader.errors import NodeUnreachable, RingleaderError
from ringleader.models.store import Store
from ringleader.net.control import ControlServer
from ringleader.node import telemetry
from ringleader.node.answer import Desk
from ringleader.node.follower import FollowerNode
from ringleader.node.ingress import Ingress, Source
from ringleader.node.perform import Performer
from ringleader.node.shelf import Shelf
from ringleader.node.supervisor import Supervisor
from ringleader.node.view import View
from ringleader.values import NodeId

TICK_S = 0.25
HEARTBEAT_TICKS = 8
INBOX_MAX = 65_536  # events; the loop takes microseconds for each, so a full inbox is a bug

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a master can be reached. A follower has neither."""

    node: NodeId
    api: str
    control: str


def make_profile(options: NodeOptions) -> NodeProfile:
    """This machine as a node. The id is new at every start."""
    return NodeProfile(
        node=NodeId(f"{options.name}-{secrets.token_hex(3)}"),
        name=options.name,
        host=options.host,
        chip=telemetry.chip(),
        memory_total_bytes=telemetry.memory_total_bytes(),
        memory_free_bytes=telemetry.memory_free_bytes(),
    )


async def run_node(options: NodeOptions, on_ready: Callable[[Listening], None]) -> None:
    """Run a node until cancelled, then leave nothing behind.

    Raises NodeUnreachable when an address is taken, and what is wrong with a model given at the start.
    """
    store = Store(options.home / "models" if options.home else None)
    if options.peer is not None:
        profile = make_profile(options)
        on_ready(Listening(profile.node, "", ""))
        await FollowerNode(profile, options.peer, store).run()
    else:
        await MasterNode(options, store).run(on_ready)


class MasterNode:
    """The first node: plans, schedules, answers."""

    def __init__(self, options: NodeOptions, store: Store) -> None:
        self._options = options
        self._profile = make_profile(options)
        self._inbox: asyncio.Queue[Event] = asyncio.Queue(maxsize=INBOX_MAX)
        self._state = ClusterState(self._profile)
        self._wish = PlanWish(
            context_tokens=options.context, streams=STREAMS_PLANNED, shards=options.shards, layers=options.layers
        )
        self._shelf = Shelf(store, options.models, options.context)
        self._supervisor = Supervisor(options.name, self.tell)
        self._control = ControlServer(options.name, self.tell)
        # A request may go anywhere when the layers that were placed by hand have lost their node.
        self._desk = Desk(self._shelf, self.tell, replace(self._wish, layers=()), self._nodes_missing)
        self._performer = Performer(
            self._profile.node, options.host, self.tell, self._shelf, self._supervisor, self._control, self._desk
        )
        self._view = View(options.name, self._state, self._desk.meters)
        self._nodes_here = asyncio.Event()  # once set, it stays so: later losses are the cluster's business

    def tell(self, event: Event) -> None:
        """Put one event into the inbox."""
        self._inbox.put_nowait(event)

    async def run(self, on_ready: Callable[[Listening], None]) -> None:
        """Serve until cancelled."""
        await asyncio.gather(*(asyncio.to_thread(self._shelf.store.model_id, each) for each in self._options.models))
        control_port = await self._control.start(self._options.host, self._options.control_port)
        api: ApiServer | None = None
        try:
            api = await self._serve_api()
            on_ready(Listening(self._profile.node, api.url, f"{self._options.host}:{control_port}"))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._loop(), name="inbox")
                tasks.create_task(self._tick(), name="tick")
                tasks.create_task(self._want_models(), name="start models")
        finally:
            self._desk.close()
            if api is not None:
                await api.close()
            await self._performer.close()
            await self._control.close()

    async def source(self) -> tuple[NodeId, Source]:
        """Where requests are answered: here."""
        return self._profile.node, self._desk

    async def _serve_api(self) -> ApiServer:
        o = self._options
        loopback = check_exposure(o.api_host, o.api_key)
        app = make_app(
            Ingress(self),
            self._shelf,
            self._view,
            api_key=o.api_key,
            loopback_only=loopback,
            named_finish_reason=o.named_finish,
        )
        try:
            return await serve(app, host=o.api_host, port=o.api_port)
        except OSError as error:
            raise NodeUnreachable(
                f"the API's address {o.api_host}:{o.api_port} cannot be used ({error.strerror or error}): "
                "does a node run here already? Another port: --api-port"
            ) from error

    async def _loop(self) -> None:
        while True:
            event = await self._inbox.get()
            for effect in self._state.step(event, time.monotonic()):
                self._performer.perform(effect)
            self._notice()

    def _notice(self) -> None:
        snapshot = self._state.snapshot()
        self._shelf.loaded = {ring.model for ring in snapshot.rings if ring.state == "serving"}
        if self._nodes_present() >= self._options.wait_for:
            self._nodes_here.set()

    def _nodes_present(self) -> int:
        return sum(node.state != "lost" for node in self._state.snapshot().nodes)

    def _nodes_missing(self) -> int:
        """How many nodes the operator wants to see before the first model is placed."""
        if self._nodes_here.is_set():
            return 0
        return max(0, self._options.wait_for - self._nodes_present())

    async def _tick(self) -> None:
        self.tell(NodeJoined(self._profile))
        count = 0
        while True:
            self.tell(Ticked())
            if count % HEARTBEAT_TICKS == 0:
                self.tell(NodeReported(self._profile.node, telemetry.memory_free_bytes()))
            count += 1
            await asyncio.sleep(TICK_S)

    async def _want_models(self) -> None:
        """Load the models that were named at the start, once the nodes that were asked for are here."""
        await self._nodes_here.wait()
        for reference in self._options.models:
            model = self._shelf.store.model_id(reference)
            try:
                entry = await self._shelf.entry(model)
            except RingleaderError as error:
                log.error("%s cannot be served: %s", reference, error)
            else:
                self.tell(RingWanted(entry.costs, self._wish))
