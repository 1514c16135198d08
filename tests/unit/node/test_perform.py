from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.plan import Plan, Stage
from ringleader.errors import RingleaderError, RingLost
from ringleader.net.control import Order, StartOrder, StopOrder
from ringleader.node import perform as room
from ringleader.node.perform import Performer
from ringleader.node.shelf import Entry
from ringleader.node.supervisor import ShardStart
from ringleader.values import LayerRange, ModelId, NodeId, PlanHash, RequestId

ME, B = NodeId("me"), NodeId("b")
STAGES = (Stage(ME, LayerRange(0, 4), 1, 1), Stage(B, LayerRange(4, 10), 1, 1))
PLAN = Plan(ModelId("tiny"), "digest", 10, 1000, STAGES, "because")
R = RequestId("r")


class Everything:
    """Shelf, supervisor, control server and desk in one: remembers what it was told to do."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.connected = True
        self.done: list[Any] = []

    def known(self, model: ModelId) -> Entry:
        return self.entry

    def start(self, shard: ShardStart) -> None:
        self.done.append(shard)

    async def stop(self, plan: PlanHash, index: int) -> None:
        self.done.append(("stop", plan, index))

    async def stop_all(self) -> None:
        self.done.append("stop all")

    def order(self, node: NodeId, order: Order) -> bool:
        self.done.append((node, order))
        return self.connected

    def dispatch(self, request: RequestId, ring: FakeRing) -> None:
        ring.submit(request)

    def fail(self, request: RequestId, error: RingleaderError) -> None:
        self.done.append((request, error))

    def tokens(self, request: RequestId, tokens: object) -> None:
        raise AssertionError("no ring speaks here")


class FakeRing:
    """A ring client that links, or not, as the test wants; `made` are all, oldest first."""

    made: list[FakeRing]
    trouble: Exception | None
    silent: int | None

    def __init__(self, *, plan: PlanHash, epoch: int, on_tokens: Any, on_break: Any) -> None:
        self.epoch = epoch
        self.on_break = on_break
        self.did: list[Any] = []
        self.made.append(self)

    async def open(self, addresses: tuple[str, ...]) -> None:
        self.did.append(addresses)
        if self.trouble is not None:
            raise self.trouble

    def submit(self, request: RequestId) -> None:
        self.did.append(request)

    def cancel(self, request: RequestId) -> None:
        self.did.append(("cancel", request))

    async def close(self) -> None:
        self.did.append("close")


class Scene:
    def __init__(self, entry: Entry) -> None:
        self.told: asyncio.Queue[m.Event] = asyncio.Queue()
        self.all = Everything(entry)
        fake: Any = self.all
        self.performer = Performer(ME, "host", self.told.put_nowait, fake, fake, fake, fake)
        self.perform = self.performer.perform

    async def next(self) -> m.Event:
        async with asyncio.timeout(5):
            return await self.told.get()


@pytest.fixture
async def scene(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    FakeRing.made, FakeRing.trouble, FakeRing.silent = [], None, None
    monkeypatch.setattr(room, "RingClient", FakeRing)
    scene = Scene(entry)
    yield scene
    await scene.performer.close()


async def test_our_own_shard_is_started_here_and_another_s_by_an_order_to_its_node(scene: Scene) -> None:
    scene.perform(m.StartShard(ME, PLAN, 0))
    scene.perform(m.StartShard(B, PLAN, 1))
    ours, theirs = scene.all.done
    assert (ours.plan, ours.index, ours.layers, ours.layer_count) == (PLAN.hash, 0, LayerRange(0, 4), 10)
    assert theirs == (B, StartOrder(PLAN.hash, 1, "tiny", "digest", LayerRange(4, 10), 10, PLAN.kv_tokens))


async def test_a_node_that_takes_no_orders_has_lost_its_shard(scene: Scene) -> None:
    scene.all.connected = False
    scene.perform(m.StartShard(B, PLAN, 1))
    assert await scene.next() == m.ShardDied(PLAN.hash, 1, "its node takes no orders")


async def test_shards_are_stopped_where_they_run(scene: Scene) -> None:
    scene.perform(m.StopShard(B, PLAN.hash, 1))
    scene.perform(m.StopShard(ME, PLAN.hash, 0))
    await asyncio.sleep(0)
    assert scene.all.done == [(B, StopOrder(PLAN.hash, 1)), ("stop", PLAN.hash, 0)]


async def test_a_ring_that_links_is_told_and_takes_requests(scene: Scene) -> None:
    scene.perform(m.LinkRing(PLAN.hash, 3, ("x:1", "y:1")))
    assert await scene.next() == m.RingLinked(PLAN.hash, 3)
    scene.perform(m.Dispatch(R, PLAN.hash))
    scene.perform(m.CancelAtHead(R, PLAN.hash))
    assert FakeRing.made[0].did == [("x:1", "y:1"), R, ("cancel", R)]
    FakeRing.made[0].on_break("the head is gone")
    assert await scene.next() == m.RingBroke(PLAN.hash, 3, "the head is gone")


@pytest.mark.parametrize(
    ("trouble", "silent", "reason"),
    [
        (RingLost("x:1 refuses"), None, "x:1 refuses"),
        (RingLost("y:1 did not answer"), 1, "y:1 did not answer"),
        (TimeoutError(), None, "linking took too long"),
    ],
)
async def test_a_ring_that_does_not_link_is_closed_and_told_with_the_shard_that_was_silent(
    scene: Scene, trouble: Exception, silent: int | None, reason: str
) -> None:
    FakeRing.trouble, FakeRing.silent = trouble, silent
    scene.perform(m.LinkRing(PLAN.hash, 3, ("x:1", "y:1")))
    assert await scene.next() == m.RingBroke(PLAN.hash, 3, reason, silent)
    assert FakeRing.made[0].did[-1] == "close"


async def test_a_request_for_a_ring_that_is_not_there_fails_and_leaves_the_table(scene: Scene) -> None:
    scene.perform(m.Dispatch(R, PLAN.hash))
    ((request, error),) = scene.all.done
    assert request == R
    assert isinstance(error, RingLost)
    assert await scene.next() == m.RequestEnded(R)


async def test_a_new_epoch_closes_the_ring_of_the_old_one(scene: Scene) -> None:
    for epoch in (1, 2):
        scene.perform(m.LinkRing(PLAN.hash, epoch, ("x:1",)))
        assert await scene.next() == m.RingLinked(PLAN.hash, epoch)
    await asyncio.sleep(0)
    assert [ring.did for ring in FakeRing.made] == [[("x:1",), "close"], [("x:1",)]]


async def test_closing_ends_rings_and_shards(scene: Scene) -> None:
    scene.perform(m.LinkRing(PLAN.hash, 1, ("x:1",)))
    await scene.next()
    await scene.performer.close()
    assert FakeRing.made[0].did[-1] == "close"
    assert scene.all.done == ["stop all"]
    scene.perform(m.CancelAtHead(R, PLAN.hash))
    scene.perform(m.CloseRing(PLAN.hash))
