from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest

from ringleader.cluster.messages import (
    Event,
    NodeJoined,
    NodeLost,
    NodeProfile,
    NodeReported,
    RequestEnded,
    ShardBecameReady,
    ShardDied,
    ShardMadeProgress,
)
from ringleader.errors import NodeUnreachable
from ringleader.net import control
from ringleader.net.control import ControlServer, Follower, Order, StartOrder, StopOrder
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import LayerRange, NodeId, PlanHash, RequestId
from tests.unit.cluster.builders import node
from tests.unit.net.listening import Master

B = node("b")
PLAN = PlanHash("p")
START = StartOrder(PLAN, 1, "tiny", "digest", LayerRange(5, 10), 10, 4096)


class Member:
    """A follower's membership in a task of its own; what it is told can be waited for."""

    def __init__(self, address: str, profile: NodeProfile = B) -> None:
        self.orders: asyncio.Queue[Order] = asyncio.Queue()
        self.welcomed: asyncio.Queue[str] = asyncio.Queue()
        self.follower = Follower(address, profile, self.orders.put)
        self.task = asyncio.create_task(self.follower.run(self.welcomed.put_nowait))

    async def next_order(self) -> Order:
        async with asyncio.timeout(5):
            return await self.orders.get()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@pytest.fixture
async def master() -> AsyncIterator[Master]:
    master = Master()
    await master.open()
    yield master
    await master.server.close()


@pytest.fixture
async def member(master: Master) -> AsyncIterator[Member]:
    member = Member(master.address)
    assert await master.next() == NodeJoined(B)
    yield member
    await member.leave()


async def test_a_follower_that_joins_is_welcomed_by_name(member: Member) -> None:
    async with asyncio.timeout(5):
        assert await member.welcomed.get() == "a"


@pytest.mark.parametrize(
    "event",
    [
        NodeReported(B.node, 123),
        ShardBecameReady(PLAN, 2, "host:1", 10**11, 77),
        ShardMadeProgress(PLAN, 0, 0.25),
        ShardDied(PLAN, 1, "signal SIGKILL"),
        ShardDied(PLAN, 1, "tensor x is missing", permanent=True),
    ],
)
async def test_what_a_follower_reports_arrives_unchanged(master: Master, member: Member, event: Event) -> None:
    member.follower.report(event)
    assert await master.next() == event


async def test_what_is_no_report_of_a_follower_is_not_sent(master: Master, member: Member) -> None:
    member.follower.report(RequestEnded(RequestId("r")))
    member.follower.report(NodeReported(B.node, 1))
    assert await master.next() == NodeReported(B.node, 1)


async def test_orders_arrive_unchanged_and_in_turn(master: Master, member: Member) -> None:
    assert master.server.order(B.node, START)
    assert master.server.order(B.node, StopOrder(PLAN, 1))
    assert [await member.next_order(), await member.next_order()] == [START, StopOrder(PLAN, 1)]


async def test_an_order_for_a_node_that_is_not_here_or_reads_nothing_is_not_taken(
    master: Master, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not master.server.order(NodeId("nobody"), START)
    taken = [master.server.order(B.node, START) for _ in range(control.ORDERS_MAX + 1)]  # no task runs meanwhile
    assert taken == [True] * control.ORDERS_MAX + [False]


async def test_a_follower_that_leaves_is_lost(master: Master, member: Member) -> None:
    await member.leave()
    lost = await master.next()
    assert isinstance(lost, NodeLost)
    assert lost.node == B.node
    assert not master.server.order(B.node, START)


async def test_a_master_that_ends_is_told_to_its_followers(master: Master, member: Member) -> None:
    await master.server.close()
    with pytest.raises(NodeUnreachable, match=master.address):
        async with asyncio.timeout(5):
            await member.task


async def test_a_follower_s_second_connection_outlives_its_first(master: Master, member: Member) -> None:
    again = Member(master.address)
    assert await master.next() == NodeJoined(B)
    (first, _) = [task for task in asyncio.all_tasks() if task.get_name() == "reports of b"]
    await member.leave()
    await asyncio.wait({first}, timeout=5)
    await asyncio.sleep(0.05)  # what would be told, would be told at once
    assert master.server.order(B.node, START)
    assert await again.next_order() == START
    assert master.told.empty(), "the node is not lost"
    await again.leave()


async def test_another_protocol_version_is_refused_by_name(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    async with grpc.aio.insecure_channel(master.address) as channel:

        async def hello() -> AsyncIterator[pb.NodeReport]:
            yield pb.NodeReport(hello=pb.NodeHello(version=99, node="x", name="x"))

        orders = [order async for order in rpc.ControlStub(channel).Join(hello(), timeout=5)]
    assert [order.WhichOneof("order") for order in orders] == ["welcome"]
    assert "protocol 1, this node 99" in orders[0].welcome.refused
    assert master.told.empty()


async def test_a_refusal_ends_the_membership_with_the_master_s_words() -> None:
    class Refuses(rpc.ControlServicer):
        async def Join(self, reports: object, context: object) -> AsyncIterator[pb.NodeOrder]:
            yield pb.NodeOrder(welcome=pb.Welcome(refused="update the older one"))

    server = grpc.aio.server()
    rpc.add_ControlServicer_to_server(Refuses(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    member = Member(f"127.0.0.1:{port}")
    with pytest.raises(NodeUnreachable, match="update the older one"):
        async with asyncio.timeout(5):
            await member.task
    await server.stop(0)


async def test_a_stream_that_does_not_begin_with_a_hello_is_refused(master: Master) -> None:
    async with grpc.aio.insecure_channel(master.address) as channel:

        async def status() -> AsyncIterator[pb.NodeReport]:
            yield pb.NodeReport(status=pb.NodeStatus())

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [order async for order in rpc.ControlStub(channel).Join(status(), timeout=5)]
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert master.told.empty()


async def test_where_no_master_listens_the_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "DIAL_DEADLINE_S", 0.3)
    member = Member("127.0.0.1:1")
    with pytest.raises(NodeUnreachable, match=r"no node answers at 127\.0\.0\.1:1"):
        async with asyncio.timeout(5):
            await member.task


async def test_a_taken_port_is_told_with_what_to_do(master: Master) -> None:
    second = ControlServer("c", lambda event: None)
    with pytest.raises(NodeUnreachable, match="--port"):
        await second.start("127.0.0.1", int(master.address.rpartition(":")[2]))
    await second.close()


async def test_a_full_queue_of_reports_drops_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower("127.0.0.1:1", B, asyncio.Queue[Order]().put)
    for number in range(control.REPORTS_MAX + 5):
        follower.report(NodeReported(B.node, number))  # must not raise: the loop that reports must go on
