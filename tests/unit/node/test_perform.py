"""A node's hands do what they are told, in order, whatever is told meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringleader.cluster import messages as m
from ringleader.cluster.plan import Plan, Stage
from ringleader.errors import MasterMoved, NotTrusted, RingleaderError, RingLost, UnknownModel
from ringleader.models.headers import read_costs
from ringleader.node import perform as room
from ringleader.node.perform import Hands
from ringleader.node.supervisor import ShardStart
from ringleader.node.wording import from_bytes
from ringleader.trust.credentials import read_term
from ringleader.values import Draft, LayerRange, ModelCosts, ModelId, NodeId, PlanHash, RequestId
from tests.unit.models.builders import model_directory

ME, B = NodeId("me"), NodeId("b")
R = RequestId("r")
TERM = m.Term(1, ME)


class Store:
    """Holds one model, "tiny". It finds nothing before `found` is set."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.found = threading.Event()
        self.found.set()
        self.trouble: Exception | None = None

    def resolve(self, reference: str) -> Path:
        assert self.found.wait(5)
        if self.trouble is not None:
            raise self.trouble
        if reference != "tiny":
            raise UnknownModel(f"{reference} is not stored here; pull it", param="model")
        return self.directory


class Everything:
    """Shelf, supervisor, mesh, desk and mastership in one: remembers what it was told to do."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory)
        self.learned: list[tuple[str, str]] = []
        self.done: list[Any] = []

    def learn(self, model: ModelId, reference: str) -> None:
        self.learned.append((model, reference))

    def start(self, shard: ShardStart) -> None:
        self.done.append(shard)

    def rename(self, *names: Any) -> None:
        self.done.append(("rename", *names))

    async def stop(self, plan: PlanHash, index: int) -> None:
        self.done.append(("stop", plan, index))

    async def stop_all(self) -> None:
        self.done.append("stop all")

    def send(self, to: NodeId, word: bytes) -> None:
        self.done.append((to, from_bytes(word)))

    def dial(self, addresses: tuple[str, ...], node: NodeId | None) -> None:
        self.done.append(("dial", addresses, node))

    def redial(self) -> None:
        self.done.append("redial")

    def follow(self, term: m.Term | None) -> None:
        self.done.append(("follow", term))

    def dispatch(self, request: RequestId, ring: FakeRing) -> None:
        ring.submit(request)

    def fail(self, request: RequestId, error: RingleaderError) -> None:
        self.done.append((request, error))

    def tokens(self, request: RequestId, tokens: object) -> None:
        raise AssertionError("no ring speaks here")

    @property
    def started(self) -> list[ShardStart]:
        return [each for each in self.done if isinstance(each, ShardStart)]


class FakeRing:
    """A ring client that links, or not, as the test wants; `made` are all, oldest first."""

    made: list[FakeRing]
    trouble: BaseException | None
    silent: int | None
    linked: asyncio.Event

    def __init__(self, *, plan: PlanHash, epoch: int, on_break: Any, **about: Any) -> None:
        self.epoch = epoch
        self.on_break = on_break
        self.about = about
        self.closed = False
        self.did: list[Any] = []
        self.made.append(self)

    async def open(self, addresses: tuple[str, ...]) -> None:
        self.did.append(addresses)
        await self.linked.wait()
        if self.trouble is not None:
            raise self.trouble
        if self.closed:
            raise RingLost("the ring was closed while it was linked")

    def submit(self, request: RequestId) -> None:
        if self.closed:
            raise RingLost("the ring is closed")
        self.did.append(request)

    def cancel(self, request: RequestId) -> None:
        self.did.append(("cancel", request))

    async def close(self) -> None:
        self.closed = True
        self.did.append("close")


class Scene:
    def __init__(self, state: Path, directory: Path) -> None:
        self.told: asyncio.Queue[m.Event] = asyncio.Queue()
        self.all = Everything(directory)
        self.costs = read_costs(directory, ModelId("tiny"))
        fake: Any = self.all
        self.state = state
        self.hands = Hands(
            tell=self.told.put_nowait,
            state=state,
            listen_host="127.0.0.1",
            credentials=None,
            shelf=fake,
            supervisor=fake,
            mesh=fake,
            desk=fake,
            mastership=fake,
        )
        self.perform = self.hands.perform
        self.plan = plan(self.costs)

    def assignment(self, made: Plan | None = None, reference: str = "tiny") -> m.Assignment:
        return m.Assignment(made or self.plan, self.costs, m.PlanWish(100), False, reference, TERM)

    async def next(self) -> m.Event:
        async with asyncio.timeout(5):
            return await self.told.get()

    async def settle(self) -> None:
        """Until nothing is under way but what waits for something."""
        async with asyncio.timeout(5):
            while self.hands._tasks:
                await asyncio.wait(self.hands._tasks)


def plan(costs: ModelCosts, serial: int = 0, digest: str | None = None) -> Plan:
    stages = (Stage(ME, LayerRange(0, 1), 1, 1), Stage(B, LayerRange(1, 2), 1, 1))
    return Plan(costs.model, costs.digest if digest is None else digest, 2, 1000, stages, "because", serial)


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    FakeRing.made, FakeRing.trouble, FakeRing.silent, FakeRing.linked = [], None, None, asyncio.Event()
    FakeRing.linked.set()
    monkeypatch.setattr(room, "RingClient", FakeRing)
    scene = Scene(tmp_path / "state", model_directory(tmp_path / "tiny"))
    yield scene
    scene.all.store.found.set()
    await scene.hands.close()


# ---------------------------------------------------------------- words and terms


async def test_words_dials_and_masters_go_where_they_belong_in_order(scene: Scene) -> None:
    order = m.StopOrder(TERM, PlanHash("p"), 1)
    for effect in (m.Dial(("x:1",), B), m.Send(B, order), m.Redial(), m.FollowMaster(TERM), m.FollowMaster(None)):
        scene.perform(effect)
    assert scene.all.done == [("dial", ("x:1",), B), (B, order), "redial", ("follow", TERM), ("follow", None)]


async def test_a_term_is_on_the_disk_before_the_next_effect_is_performed(scene: Scene) -> None:
    scene.perform(m.PersistTerm(7))
    assert read_term(scene.state) == 7


async def test_a_term_that_cannot_be_kept_is_not_gone_on_with(scene: Scene) -> None:
    scene.state.mkdir(mode=0o755)
    with pytest.raises(NotTrusted, match="chmod"):
        scene.perform(m.PersistTerm(7))


# ---------------------------------------------------------------- this node's shards


async def test_an_ordered_shard_is_started_from_our_own_copy_of_the_files(scene: Scene) -> None:
    scene.perform(m.RunShard(scene.assignment(), 1))
    await scene.settle()
    (started,) = scene.all.done
    assert started == ShardStart(
        plan=scene.plan.hash,
        index=1,
        directory=scene.all.store.directory,
        layers=LayerRange(1, 2),
        layer_count=2,
        host="127.0.0.1",
        kv_tokens_max=scene.plan.kv_tokens,
        digest=scene.costs.digest,
    )
    assert scene.all.learned == [("tiny", "tiny")]


@pytest.mark.parametrize(
    ("reference", "index", "found"), [("tiny", 0, True), ("tiny", 1, False), ("not here", 0, False)]
)
async def test_the_head_of_a_plan_with_drafts_gets_the_draft_model_if_its_files_are_here(
    scene: Scene, caplog: pytest.LogCaptureFixture, reference: str, index: int, found: bool
) -> None:
    planned = replace(scene.plan, draft=Draft(reference, 1, 1))
    scene.perform(m.RunShard(scene.assignment(planned), index))
    await scene.settle()
    (started,) = scene.all.done
    assert started.draft_model == (scene.all.store.directory if found else None)
    without = "tiny is served without drafts of a model: not here is not stored here; pull it"
    assert (without in caplog.text) == (reference == "not here")


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("name", "other is not stored here; pull it"),
        ("digest", "holds other files than the master's tiny; pull it again"),
        ("disk", "Input/output error"),
    ],
)
async def test_a_model_that_is_not_here_differs_or_cannot_be_read_is_a_permanent_death_that_says_so(
    scene: Scene, trouble: str, why: str
) -> None:
    assignment = scene.assignment(reference="other") if trouble == "name" else scene.assignment()
    if trouble == "digest":
        assignment = scene.assignment(plan(scene.costs, digest="another"))
    if trouble == "disk":
        scene.all.store.trouble = OSError(5, "Input/output error")
    scene.perform(m.RunShard(assignment, 1))
    died = await scene.next()
    assert isinstance(died, m.ShardDied)
    assert (died.plan, died.index, died.permanent) == (assignment.plan.hash, 1, True)
    assert why in died.reason
    assert scene.all.started == []


async def test_a_running_shard_is_ended_and_renamed_by_the_supervisor(scene: Scene) -> None:
    new = plan(scene.costs, serial=1)
    scene.perform(m.RenameShard(scene.plan.hash, 1, scene.assignment(new), 0))
    scene.perform(m.EndShard(new.hash, 0))
    await scene.settle()
    assert scene.all.done == [("rename", scene.plan.hash, 1, new.hash, 0), ("stop", new.hash, 0)]
    assert scene.all.learned == [("tiny", "tiny")]


@pytest.mark.parametrize("begun", [False, True], ids=["at once", "while its files are looked for"])
async def test_a_shard_that_is_ended_before_it_runs_is_told_dead_once_and_never_started(
    scene: Scene, begun: bool
) -> None:
    scene.all.store.found.clear()
    scene.perform(m.RunShard(scene.assignment(), 1))
    await asyncio.sleep(0.02 * begun)
    scene.perform(m.EndShard(scene.plan.hash, 1))
    assert await scene.next() == m.ShardDied(scene.plan.hash, 1, "it was stopped before it was started")
    scene.all.store.found.set()
    await scene.settle()
    assert (scene.all.started, scene.told.empty()) == ([], True)


async def test_a_shard_that_is_ordered_again_after_an_end_is_started_once(scene: Scene) -> None:
    scene.all.store.found.clear()
    scene.perform(m.RunShard(scene.assignment(), 1))
    scene.perform(m.EndShard(scene.plan.hash, 1))
    await scene.next()
    scene.perform(m.RunShard(scene.assignment(), 1))
    scene.all.store.found.set()
    await scene.settle()
    assert len(scene.all.started) == 1
    assert scene.told.empty()


async def test_the_trouble_of_a_search_that_was_given_up_is_not_told_of_the_next(scene: Scene) -> None:
    scene.all.store.found.clear()
    scene.perform(m.RunShard(scene.assignment(reference="other"), 1))
    scene.perform(m.EndShard(scene.plan.hash, 1))
    await scene.next()
    scene.perform(m.RunShard(scene.assignment(), 1))
    scene.all.store.found.set()
    await scene.settle()
    assert (len(scene.all.started), scene.told.empty()) == (1, True)


async def test_a_shard_that_is_renamed_while_its_files_are_looked_for_is_started_under_its_new_name(
    scene: Scene,
) -> None:
    new = plan(scene.costs, serial=1)
    scene.all.store.found.clear()
    scene.perform(m.RunShard(scene.assignment(), 1))
    scene.perform(m.RenameShard(scene.plan.hash, 1, scene.assignment(new), 1))
    scene.all.store.found.set()
    await scene.settle()
    (started,) = scene.all.started
    assert (started.plan, started.index) == (new.hash, 1)
    scene.perform(m.RunShard(scene.assignment(reference="other"), 1))
    scene.perform(m.RenameShard(scene.plan.hash, 1, scene.assignment(new, reference="other"), 1))
    died = await scene.next()
    assert isinstance(died, m.ShardDied)
    assert (died.plan, died.permanent) == (new.hash, True)


# ---------------------------------------------------------------- the master's rings


def link(scene: Scene, epoch: int = 3) -> m.LinkRing:
    return m.LinkRing(scene.plan.hash, epoch, ("x:1", "y:1"), TERM, scene.plan)


async def test_a_ring_that_links_is_told_and_takes_requests(scene: Scene) -> None:
    plan_hash = scene.plan.hash
    scene.perform(link(scene))
    assert await scene.next() == m.RingLinked(plan_hash, 3)
    (ring,) = FakeRing.made
    assert (ring.about["nodes"], ring.about["term"], ring.about["whole"]) == ((ME, B), TERM, scene.plan)
    scene.perform(m.Dispatch(R, plan_hash))
    scene.perform(m.CancelAtHead(R, plan_hash))
    assert ring.did == [("x:1", "y:1"), R, ("cancel", R)]
    ring.on_break("the head is gone")
    assert await scene.next() == m.RingBroke(plan_hash, 3, "the head is gone")


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
    scene.perform(link(scene))
    assert await scene.next() == m.RingBroke(scene.plan.hash, 3, reason, silent)
    assert FakeRing.made[0].did[-1] == "close"


async def test_a_request_for_a_ring_that_is_not_there_fails_and_leaves_the_table(scene: Scene) -> None:
    scene.perform(m.Dispatch(R, scene.plan.hash))
    ((request, error),) = scene.all.done
    assert request == R
    assert isinstance(error, RingLost)
    assert await scene.next() == m.RequestEnded(R)


async def test_a_new_epoch_closes_the_ring_of_the_old_one(scene: Scene) -> None:
    for epoch in (1, 2):
        scene.perform(link(scene, epoch))
        assert await scene.next() == m.RingLinked(scene.plan.hash, epoch)
    await scene.settle()
    assert [ring.did for ring in FakeRing.made] == [[("x:1", "y:1"), "close"], [("x:1", "y:1")]]


@pytest.mark.parametrize("begun", [False, True], ids=["at once", "while it is linked"])
async def test_a_ring_that_is_closed_before_it_is_linked_is_closed(scene: Scene, begun: bool) -> None:
    FakeRing.linked.clear()
    scene.perform(link(scene))
    await asyncio.sleep(0.01 * begun)
    scene.perform(m.CloseRing(scene.plan.hash))
    FakeRing.linked.set()
    await scene.settle()
    assert FakeRing.made[0].closed
    assert isinstance(await scene.next(), m.RingBroke)
    scene.perform(m.Dispatch(R, scene.plan.hash))
    assert await scene.next() == m.RequestEnded(R)


async def test_a_request_that_the_cluster_fails_is_failed_at_the_desk(scene: Scene) -> None:
    error = MasterMoved("elsewhere")
    scene.perform(m.FailRequest(R, error))
    assert scene.all.done == [(R, error)]


# ---------------------------------------------------------------- the end


async def test_closing_ends_rings_and_shards(scene: Scene) -> None:
    scene.perform(link(scene, 1))
    await scene.next()
    await scene.hands.close()
    assert FakeRing.made[0].did[-1] == "close"
    assert scene.all.done == ["stop all"]
    scene.perform(m.CancelAtHead(R, scene.plan.hash))
    scene.perform(m.CloseRing(scene.plan.hash))


async def test_a_shard_whose_files_are_found_after_the_end_is_not_started(scene: Scene) -> None:
    scene.all.store.found.clear()
    scene.perform(m.RunShard(scene.assignment(), 1))
    closing = asyncio.create_task(scene.hands.close())
    await asyncio.sleep(0.02)
    scene.all.store.found.set()
    await closing
    assert scene.all.done == ["stop all"]


async def test_what_hangs_at_the_end_is_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "RINGS_CLOSE_S", 0.05)
    FakeRing.linked.clear()
    scene.perform(link(scene))
    async with asyncio.timeout(2):
        await scene.hands.close()
    assert not scene.hands._tasks


async def test_an_order_that_fails_by_a_fault_of_ours_is_logged_and_told(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    FakeRing.trouble = scene.all.store.trouble = KeyError("bug")
    scene.perform(link(scene))
    broke = await scene.next()
    assert isinstance(broke, m.RingBroke)
    assert "KeyError('bug')" in broke.reason
    scene.perform(m.RunShard(scene.assignment(), 1))
    died = await scene.next()
    assert isinstance(died, m.ShardDied)
    assert "KeyError('bug')" in died.reason
    await scene.settle()
    faults = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info is not None for record in faults] == [True, True]
