from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ringleader.cluster.messages import Event, NodeJoined, NodeLost, NodeReported, ShardBecameReady, ShardDied
from ringleader.errors import UnknownModel
from ringleader.models.headers import read_costs
from ringleader.net.control import StartOrder, StopOrder
from ringleader.node import follower as room
from ringleader.node.follower import FollowerNode
from ringleader.node.supervisor import ShardStart
from ringleader.values import LayerRange, ModelId, PlanHash
from tests.unit.cluster.builders import node
from tests.unit.models.builders import model_directory
from tests.unit.net.listening import Master

B = node("b")
PLAN = PlanHash("p")


class Shards:
    """Stands for the supervisor: remembers its orders, and ends what it was told to end."""

    def __init__(self, name: str, tell: Callable[[Event], None]) -> None:
        self.tell = tell
        self.started: asyncio.Queue[ShardStart] = asyncio.Queue()
        self.stopped: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        self.all_stopped = asyncio.Semaphore(0)

    def start(self, shard: ShardStart) -> None:
        self.started.put_nowait(shard)
        self.tell(ShardBecameReady(shard.plan, shard.index, "host:1", 5, 6))

    async def stop(self, plan: PlanHash, index: int) -> None:
        self.stopped.put_nowait((plan, index))
        self.tell(ShardDied(plan, index, "stopped"))

    async def stop_all(self) -> None:
        self.all_stopped.release()


class OneModel:
    """A store that holds one model."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def resolve(self, reference: str) -> Path:
        if reference != "tiny":
            raise UnknownModel(f"{reference} is not stored here; pull it", param="model")
        return self.directory


class Scene:
    def __init__(self, master: Master, directory: Path) -> None:
        self.master = master
        self.directory = directory
        self.shards: Any = None
        follower = FollowerNode(B, master.address, OneModel(directory), self._supervise)  # type: ignore[arg-type]  # fakes
        self.task = asyncio.create_task(follower.run())

    def _supervise(self, name: str, tell: Callable[[Event], None]) -> Any:
        self.shards = Shards(name, tell)
        return self.shards

    def order(self, *, model: str = "tiny", digest: str | None = None) -> None:
        right = read_costs(self.directory, ModelId("tiny")).digest
        start = StartOrder(PLAN, 1, model, right if digest is None else digest, LayerRange(1, 2), 2, 4096)
        assert self.master.server.order(B.node, start)

    async def next(self) -> Event:
        """What the master hears next, heartbeats aside."""
        while isinstance(event := await self.master.next(), NodeReported):
            pass
        return event


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(room, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(room, "REJOIN_FIRST_S", 0.05)
    master = Master()
    await master.open()
    scene = Scene(master, model_directory(tmp_path / "tiny"))
    assert await scene.next() == NodeJoined(B)
    yield scene
    scene.task.cancel()
    await asyncio.wait({scene.task})
    await master.server.close()


async def test_a_follower_reports_its_free_memory_again_and_again(scene: Scene) -> None:
    for _ in range(3):
        report = await scene.master.next()
        assert isinstance(report, NodeReported)
        assert report.memory_free_bytes > 0


async def test_an_ordered_shard_is_started_from_our_own_copy_and_what_it_says_is_reported(scene: Scene) -> None:
    scene.order()
    started = await scene.shards.started.get()
    assert started == ShardStart(PLAN, 1, scene.directory, LayerRange(1, 2), 2, B.host, 4096)
    assert await scene.next() == ShardBecameReady(PLAN, 1, "host:1", 5, 6)
    scene.master.server.order(B.node, StopOrder(PLAN, 1))
    assert await scene.next() == ShardDied(PLAN, 1, "stopped")
    assert await scene.shards.stopped.get() == (PLAN, 1)


@pytest.mark.parametrize(
    ("order", "why"),
    [({"model": "other"}, "other is not stored here"), ({"digest": "x"}, "holds other files than the master's tiny")],
)
async def test_a_model_that_is_not_here_or_differs_is_a_permanent_death_with_advice(
    scene: Scene, order: dict[str, str], why: str
) -> None:
    scene.order(**order)
    died = await scene.next()
    assert isinstance(died, ShardDied)
    assert (died.plan, died.index, died.permanent) == (PLAN, 1, True)
    assert died.reason.startswith("on b: ")
    assert why in died.reason
    assert "pull it" in died.reason
    assert scene.shards.started.empty()


async def test_when_the_master_is_gone_the_shards_end_and_the_follower_joins_whoever_comes_back(scene: Scene) -> None:
    port = int(scene.master.address.rpartition(":")[2])
    await scene.master.server.close()
    async with asyncio.timeout(5):
        await scene.shards.all_stopped.acquire()
    again = Master()
    await again.open(port)
    scene.master = again
    assert await scene.next() == NodeJoined(B)
    scene.order()
    assert isinstance(await scene.next(), ShardBecameReady)
    await again.server.close()


async def test_a_follower_that_ends_takes_its_shards_along_and_is_lost_to_the_master(scene: Scene) -> None:
    scene.task.cancel()
    await asyncio.wait({scene.task})
    async with asyncio.timeout(5):
        await scene.shards.all_stopped.acquire()
    assert isinstance(await scene.next(), NodeLost)
