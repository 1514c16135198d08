from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied, ShardMadeProgress
from ringleader.node import supervisor as room
from ringleader.node.supervisor import ShardStart, Supervisor, shard_environment
from ringleader.values import LayerRange, PlanHash

PLAN, NEW = PlanHash("0123456789abcdef0123456789abcdef"), PlanHash("f" * 32)
FAKE = (sys.executable, str(Path(__file__).with_name("fake_shard.py")))


def shard(behaviour: str, index: int = 0) -> ShardStart:
    return ShardStart(PLAN, index, Path(behaviour), LayerRange(3, 8), 30, "127.0.0.1", 4096)


class Watched(Supervisor):
    """A supervisor of fake shards; what it tells can be waited for."""

    def __init__(self, program: tuple[str, ...] = FAKE, **more: Any) -> None:
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        super().__init__("a", self.told.put_nowait, program, **more)

    async def next(self) -> Event:
        async with asyncio.timeout(10):
            return await self.told.get()

    async def death(self) -> ShardDied:
        while not isinstance(event := await self.next(), ShardDied):
            pass
        return event

    async def readiness(self) -> ShardBecameReady:
        while not isinstance(event := await self.next(), ShardBecameReady):
            pass
        return event


@pytest.fixture
async def supervisor() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.stop_all()


async def test_a_shard_s_progress_readiness_and_end_are_told(supervisor: Watched) -> None:
    supervisor.start(shard("ready", 2))
    assert await supervisor.next() == ShardMadeProgress(PLAN, 2, 0.5)
    ready = await supervisor.next()
    assert isinstance(ready, ShardBecameReady)
    assert (ready.index, ready.address, ready.memory_bytes) == (2, "127.0.0.1:1", 42)
    process = psutil.Process(ready.pid)
    await supervisor.stop(PLAN, 2)
    assert not process.is_running()
    died = await supervisor.next()
    assert died == ShardDied(PLAN, 2, "its process ended (signal SIGTERM)")


async def test_a_shard_is_told_its_plan_and_range(supervisor: Watched) -> None:
    supervisor.start(shard("echo"))
    assert json.loads((await supervisor.death()).reason) == {
        "--directory": "echo",
        "--layers": "3-7",
        "--of": "30",
        "--plan": PLAN,
        "--listen": "127.0.0.1:0",
        "--kv-tokens": "4096",
    }


async def test_a_shard_on_every_interface_is_given_an_address_that_can_be_listened_at(supervisor: Watched) -> None:
    supervisor.start(replace(shard("echo"), host="::"))
    assert json.loads((await supervisor.death()).reason)["--listen"] == "[::]:0"


@pytest.mark.parametrize(
    ("behaviour", "permanent", "reason"),
    [
        ("echo", True, "--directory"),
        ("mute-fault", True, "exit code 3"),
        ("crash", False, "exit code 1); its last words: first words | last words"),
        ("killed", False, "signal SIGKILL"),
    ],
)
async def test_an_end_says_why_and_whether_the_model_is_at_fault(
    supervisor: Watched, behaviour: str, permanent: bool, reason: str
) -> None:
    supervisor.start(shard(behaviour))
    died = await supervisor.death()
    assert reason in died.reason
    assert died.permanent is permanent


async def test_a_shard_that_is_killed_later_is_told_too(supervisor: Watched) -> None:
    supervisor.start(shard("ready"))
    psutil.Process((await supervisor.readiness()).pid).kill()
    assert (await supervisor.death()).reason == "its process ended (signal SIGKILL)"


async def test_a_shard_that_says_nothing_while_it_loads_is_ended(
    supervisor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "READY_DEADLINE_S", 0.3)
    supervisor.start(shard("silent"))
    died = await supervisor.death()
    assert "no progress" in died.reason
    assert not died.permanent


async def test_a_shard_that_ignores_the_order_to_end_is_killed(
    supervisor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STOP_DEADLINE_S", 0.2)
    supervisor.start(shard("stubborn"))
    await supervisor.readiness()
    await supervisor.stop(PLAN, 0)
    assert "SIGKILL" in (await supervisor.death()).reason


async def test_a_shard_that_is_stopped_before_it_has_a_process_ends_all_the_same(supervisor: Watched) -> None:
    supervisor.start(shard("ready"))
    async with asyncio.timeout(10):
        await supervisor.stop(PLAN, 0)
    assert isinstance(await supervisor.next(), ShardDied)
    assert supervisor.told.empty()


async def test_a_second_order_to_start_changes_nothing_and_a_later_one_starts_anew(supervisor: Watched) -> None:
    supervisor.start(shard("ready"))
    supervisor.start(shard("ready"))
    first = await supervisor.readiness()
    await supervisor.stop(PLAN, 0)
    await supervisor.death()
    assert supervisor.told.empty(), "there was one process"
    supervisor.start(shard("ready"))
    assert (await supervisor.readiness()).pid != first.pid


async def test_a_renamed_shard_goes_on_as_the_same_process_and_is_told_of_and_ended_under_its_new_name(
    supervisor: Watched,
) -> None:
    supervisor.start(shard("slow", 2))
    assert await supervisor.next() == ShardMadeProgress(PLAN, 2, 0.25)
    supervisor.rename(PLAN, 2, NEW, 1)
    assert await supervisor.next() == ShardMadeProgress(NEW, 1, 0.5)
    ready = await supervisor.readiness()
    assert (ready.plan, ready.index) == (NEW, 1)
    await supervisor.stop(PLAN, 2)
    assert psutil.pid_exists(ready.pid), "the old name means nobody"
    await supervisor.stop(NEW, 1)
    died = await supervisor.death()
    assert (died.plan, died.index) == (NEW, 1)
    assert not psutil.pid_exists(ready.pid)


async def test_a_shard_that_is_renamed_while_it_ends_is_told_dead_under_its_new_name(supervisor: Watched) -> None:
    supervisor.start(shard("ready"))
    await supervisor.readiness()
    stopping = asyncio.create_task(supervisor.stop(PLAN, 0))
    await asyncio.sleep(0)
    supervisor.rename(PLAN, 0, NEW, 0)
    died = await supervisor.death()
    await stopping
    assert died.plan == NEW
    supervisor.start(replace(shard("ready"), plan=NEW))
    await supervisor.readiness()


async def test_renaming_what_does_not_run_makes_nothing(supervisor: Watched) -> None:
    supervisor.rename(PLAN, 0, NEW, 0)
    await supervisor.stop_all()
    assert supervisor.told.empty()


async def test_a_shard_proves_itself_with_its_node_s_keys_and_knows_its_files() -> None:
    supervisor = Watched(credentials=Path("state"))
    supervisor.start(replace(shard("echo"), digest="d1"))
    told = json.loads((await supervisor.death()).reason)
    assert (told["--credentials"], told["--digest"]) == ("state", "d1")


@pytest.mark.parametrize(
    ("listens", "reached", "told"),
    [
        ("0.0.0.0", "10.0.0.5", "10.0.0.5:1"),
        ("::", "fe80::5%en0", "[fe80::5%en0]:1"),
        ("10.0.0.7", "10.0.0.5", "10.0.0.7:1"),
    ],
)
async def test_a_shard_on_all_interfaces_is_told_of_where_its_node_is_reached_at_that_moment(
    listens: str, reached: str, told: str
) -> None:
    at = ["before.the.shard.was.ready"]
    supervisor = Watched(reached_at=lambda: at[-1])
    supervisor.start(replace(shard("slow"), host=listens))
    await supervisor.next()
    at.append(reached)
    ready = await supervisor.readiness()
    await supervisor.stop_all()
    assert ready.address == told


async def test_stopping_what_does_not_run_is_no_error(supervisor: Watched) -> None:
    await supervisor.stop(PLAN, 5)
    await supervisor.stop_all()
    assert supervisor.told.empty()


async def test_all_shards_are_stopped_together(supervisor: Watched) -> None:
    for index in range(3):
        supervisor.start(shard("ready", index))
    pids = {(await supervisor.readiness()).pid for _ in range(3)}
    await supervisor.stop_all()
    assert {(await supervisor.death()).index for _ in range(3)} == {0, 1, 2}
    assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_lines_that_are_too_long_or_no_json_disturb_nobody(supervisor: Watched) -> None:
    supervisor.start(shard("chatty"))
    await supervisor.readiness()


async def test_a_program_that_is_not_there_is_a_death_with_its_reason() -> None:
    supervisor = Watched(("/nonexistent/program",))
    supervisor.start(shard("ready"))
    assert "cannot be started" in (await supervisor.death()).reason


async def test_a_cancelled_watch_leaves_no_process(supervisor: Watched) -> None:
    supervisor.start(shard("stubborn"))
    process = psutil.Process((await supervisor.readiness()).pid)
    (watch,) = [task for task in asyncio.all_tasks() if task.get_name() == "shard 3-7"]
    watch.cancel()
    await asyncio.wait({watch})
    assert await asyncio.to_thread(process.wait, 5) in (None, -signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux needs another BLAS")
def test_openblas_is_preloaded_once_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "other.so")
    monkeypatch.setattr(room.ctypes.util, "find_library", lambda name: "libopenblas.so.0")
    assert shard_environment()["LD_PRELOAD"] == "libopenblas.so.0:other.so"
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libopenblas.so.0")
    assert shard_environment()["LD_PRELOAD"] == "/usr/lib/libopenblas.so.0"
    monkeypatch.setattr(room.ctypes.util, "find_library", lambda name: None)
    monkeypatch.delenv("LD_PRELOAD")
    assert "LD_PRELOAD" not in shard_environment()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux preloads OpenBLAS")
def test_idle_threads_of_one_shard_do_not_spin_while_its_neighbour_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    assert int(shard_environment()["OPENBLAS_THREAD_TIMEOUT"]) <= 20
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "26")
    assert shard_environment()["OPENBLAS_THREAD_TIMEOUT"] == "26"
