"""The control plane's two ends: the master takes reports and sends orders, a follower the other way round.

Decides nothing: messages become the cluster's events, orders become messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from ringleader.cluster.messages import (
    Event,
    NodeJoined,
    NodeLost,
    NodeProfile,
    NodeReported,
    ShardBecameReady,
    ShardDied,
    ShardMadeProgress,
)
from ringleader.errors import NodeUnreachable
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import LayerRange, NodeId, PlanHash
from ringleader.wire import CONTROL_MESSAGE_BYTES_MAX, DIAL_DEADLINE_S, PROTOCOL_VERSION, channel_options

ORDERS_MAX = 256  # orders that a follower may leave unread; past that it is as good as gone
REPORTS_MAX = 1024

log = logging.getLogger("ringleader.net")

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Start a shard. `model` is a reference that the follower resolves itself; `digest` says which files it must be."""

    plan: PlanHash
    index: int
    model: str
    digest: str
    layers: LayerRange
    layer_count: int
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Stop a shard."""

    plan: PlanHash
    index: int


Order = StartOrder | StopOrder


class ControlServer(rpc.ControlServicer):
    """The master's end. Every follower's words go to `tell` as events; `order` reaches the follower."""

    def __init__(self, master: str, tell: Callable[[Event], None]) -> None:
        self._master = master
        self._tell = tell
        self._orders: dict[NodeId, asyncio.Queue[pb.NodeOrder]] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises NodeUnreachable when the address is taken."""
        server = grpc.aio.server(options=[*channel_options(CONTROL_MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)])
        rpc.add_ControlServicer_to_server(self, server)
        try:
            bound = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise NodeUnreachable(
                f"the control port {host}:{port} is taken: does a node run here already? (--port)"
            ) from error
        await server.start()
        self._server = server
        return int(bound)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0.2)

    def order(self, node: NodeId, order: Order) -> bool:
        """Queue an order for a follower; False when it is not connected or reads nothing."""
        queue = self._orders.get(node)
        if queue is None or queue.full():
            return False
        queue.put_nowait(_order_to_wire(order))
        return True

    async def Join(self, reports: AsyncIterator[pb.NodeReport], context: Context) -> AsyncIterator[pb.NodeOrder]:
        """One follower's membership, from its hello to the end of its stream."""
        first = await anext(aiter(reports), None)
        if first is None or not first.HasField("hello"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first report must be a hello")
            return
        hello = first.hello
        if hello.version != PROTOCOL_VERSION:
            refused = f"the master speaks protocol {PROTOCOL_VERSION}, this node {hello.version}: update the older one"
            yield pb.NodeOrder(welcome=pb.Welcome(version=PROTOCOL_VERSION, refused=refused))
            return
        yield pb.NodeOrder(welcome=pb.Welcome(version=PROTOCOL_VERSION, master=self._master))
        node = NodeId(hello.node)
        orders: asyncio.Queue[pb.NodeOrder] = asyncio.Queue(maxsize=ORDERS_MAX)
        self._orders[node] = orders
        self._tell(NodeJoined(_profile(hello)))
        reader = asyncio.create_task(self._read(node, reports), name=f"reports of {hello.name}")
        waiting: asyncio.Task[pb.NodeOrder] | None = None
        try:
            while not reader.done():
                waiting = asyncio.create_task(orders.get(), name=f"orders for {hello.name}")
                await asyncio.wait({reader, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    yield waiting.result()
        finally:
            for task in filter(None, (reader, waiting)):
                task.cancel()
            if self._orders.get(node) is orders:
                del self._orders[node]
                self._tell(NodeLost(node, "its connection to the master ended"))

    async def _read(self, node: NodeId, reports: AsyncIterator[pb.NodeReport]) -> None:
        try:
            async for report in reports:
                event = _event(node, report)
                if event is not None:
                    self._tell(event)
        except grpc.aio.AioRpcError as error:
            log.info("the reports of node %s ended: %s", node, error.details())


class Follower:
    """A follower's end: one membership. Reports are queued by `report`; orders go to `on_order` in turn."""

    def __init__(self, master: str, profile: NodeProfile, on_order: Callable[[Order], Awaitable[None]]) -> None:
        self._address = master
        self._profile = profile
        self._on_order = on_order
        self._reports: asyncio.Queue[pb.NodeReport] = asyncio.Queue(maxsize=REPORTS_MAX)

    def report(self, event: Event) -> None:
        """Tell the master; dropped when it reads nothing (its keepalive ends the membership soon)."""
        message = _report(event)
        if message is not None and not self._reports.full():
            self._reports.put_nowait(message)

    async def run(self, on_welcome: Callable[[str], None]) -> None:
        """Join and serve until the connection ends. Raises NodeUnreachable saying why it ended."""
        p = self._profile
        hello = pb.NodeHello(
            version=PROTOCOL_VERSION,
            node=p.node,
            name=p.name,
            host=p.host,
            chip=p.chip,
            memory_total_bytes=p.memory_total_bytes,
            memory_free_bytes=p.memory_free_bytes,
        )
        try:
            async with grpc.aio.insecure_channel(
                self._address, options=channel_options(CONTROL_MESSAGE_BYTES_MAX)
            ) as channel:
                async with asyncio.timeout(DIAL_DEADLINE_S):
                    await channel.channel_ready()
                async for order in rpc.ControlStub(channel).Join(self._sent(hello)):
                    if order.HasField("welcome"):
                        if order.welcome.refused:
                            raise NodeUnreachable(order.welcome.refused)
                        on_welcome(order.welcome.master)
                    else:
                        await self._on_order(_order_from_wire(order))
        except TimeoutError as error:
            raise NodeUnreachable(f"no node answers at {self._address}") from error
        except grpc.aio.AioRpcError as error:
            raise NodeUnreachable(f"the master at {self._address} is gone: {error.details()}") from error
        raise NodeUnreachable(f"the master at {self._address} closed the connection")

    async def _sent(self, hello: pb.NodeHello) -> AsyncIterator[pb.NodeReport]:
        yield pb.NodeReport(hello=hello)
        while True:
            yield await self._reports.get()


def _order_to_wire(order: Order) -> pb.NodeOrder:
    if isinstance(order, StopOrder):
        return pb.NodeOrder(stop_shard=pb.StopShard(plan=order.plan, index=order.index))
    start = pb.StartShard(
        plan=order.plan,
        index=order.index,
        model=order.model,
        digest=order.digest,
        first_layer=order.layers.start,
        stop_layer=order.layers.stop,
        layers=order.layer_count,
        kv_tokens=order.kv_tokens,
    )
    return pb.NodeOrder(start_shard=start)


def _order_from_wire(order: pb.NodeOrder) -> Order:
    if order.HasField("stop_shard"):
        return StopOrder(PlanHash(order.stop_shard.plan), order.stop_shard.index)
    start = order.start_shard
    return StartOrder(
        plan=PlanHash(start.plan),
        index=start.index,
        model=start.model,
        digest=start.digest,
        layers=LayerRange(start.first_layer, start.stop_layer),
        layer_count=start.layers,
        kv_tokens=start.kv_tokens,
    )


def _profile(hello: pb.NodeHello) -> NodeProfile:
    return NodeProfile(
        node=NodeId(hello.node),
        name=hello.name,
        host=hello.host,
        chip=hello.chip,
        memory_total_bytes=hello.memory_total_bytes,
        memory_free_bytes=hello.memory_free_bytes,
    )


def _event(node: NodeId, report: pb.NodeReport) -> Event | None:
    kind = report.WhichOneof("report")
    if kind == "status":
        return NodeReported(node, report.status.memory_free_bytes)
    if kind == "shard_ready":
        r = report.shard_ready
        return ShardBecameReady(PlanHash(r.plan), r.index, r.address, r.memory_bytes, r.pid)
    if kind == "shard_failed":
        f = report.shard_failed
        return ShardDied(PlanHash(f.plan), f.index, f.reason, f.permanent)
    if kind == "shard_progress":
        return ShardMadeProgress(
            PlanHash(report.shard_progress.plan), report.shard_progress.index, report.shard_progress.fraction
        )
    return None


def _report(event: Event) -> pb.NodeReport | None:
    if isinstance(event, NodeReported):
        return pb.NodeReport(status=pb.NodeStatus(memory_free_bytes=event.memory_free_bytes))
    if isinstance(event, ShardBecameReady):
        ready = pb.ShardReady(
            plan=event.plan, index=event.index, address=event.address, memory_bytes=event.memory_bytes, pid=event.pid
        )
        return pb.NodeReport(shard_ready=ready)
    if isinstance(event, ShardDied):
        failed = pb.ShardFailed(plan=event.plan, index=event.index, reason=event.reason, permanent=event.permanent)
        return pb.NodeReport(shard_failed=failed)
    if isinstance(event, ShardMadeProgress):
        progress = pb.ShardProgress(plan=event.plan, index=event.index, fraction=event.fraction)
        return pb.NodeReport(shard_progress=progress)
    return None
