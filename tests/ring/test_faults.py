"""Shards, nodes and clients die on real processes: answers go on, no orphan is left, and the ring heals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import psutil
import pytest

from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.wire import PROTOCOL_VERSION
from tests.ring.cluster import Cluster, alive, ask, events, wait_gone, wait_until

pytestmark = pytest.mark.ring

ANSWER_TOKENS = 60
GOES_ON_WITHIN_S = 40.0  # a shard is started again, the prompt computed again, the rest generated, all on two cores
TOLD_WITHIN_S = 5.0
PROGRESS_DEADLINE_S = 4.0
FROZEN_GOES_ON_WITHIN_S = GOES_ON_WITHIN_S + 17.0  # a ping every ten seconds at least, five for its answer
ORPHANS_GONE_S = 3.0
NODE_ENDS_S = 6.0
HEAD, MIDDLE, TAIL = 0, 1, 2


@pytest.fixture(scope="module")
def three(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three shards over the nodes a (master) and b. The tests run in order; each leaves a ring that serves."""
    with Cluster(tmp_path_factory.mktemp("three"), RINGLEADER_PROGRESS_DEADLINE_S=str(PROGRESS_DEADLINE_S)) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "3", "--nodes", "2")
        cluster.start_follower("b")
        yield cluster


@pytest.fixture(scope="module")
def two(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One shard on each of the nodes a (master, head) and b."""
    with Cluster(tmp_path_factory.mktemp("two")) as cluster:
        start_two(cluster, smollm)
        cluster.start_follower("b")
        yield cluster


def start_two(cluster: Cluster, model: Path, port: int = 0) -> None:
    cluster.start_master("a", "--model", str(model), "--nodes", "2", "--layers", "a=0-14,b=15-29", port=port)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


async def ready(cluster: Cluster) -> list[Any]:
    return await asyncio.to_thread(cluster.wait_ready)


async def lose(
    session: aiohttp.ClientSession, cluster: Cluster, fault: Callable[[], None], within_s: float, others: int = 0
) -> None:
    """Let `fault` happen while one request streams and one does not: both go on as if nothing had happened."""
    status, unharmed = await ask(session, cluster.api, max_tokens=ANSWER_TOKENS)
    assert status == 200, unharmed
    whole = asyncio.create_task(ask(session, cluster.api, max_tokens=ANSWER_TOKENS))
    pieces: list[str] = []
    async with aclosing(events(session, cluster.api, max_tokens=ANSWER_TOKENS)) as stream:
        async for event in stream:
            pieces.append(_content(event))
            if len("".join(pieces)) > 10:
                break
        await asyncio.to_thread(wait_running, cluster, 2 + others)
        fault()
        async with asyncio.timeout(within_s):
            async for event in stream:
                assert "error" not in event, event
                pieces.append("" if event == "[DONE]" else _content(event))
            status, body = await whole
    assert "".join(pieces) == unharmed["choices"][0]["message"]["content"]
    assert status == 200, body
    assert body["choices"] == unharmed["choices"]
    told, before = body["usage"], unharmed["usage"]
    assert [told[key] for key in ("prompt_tokens", "completion_tokens")] == [
        before[key] for key in ("prompt_tokens", "completion_tokens")
    ]


def _content(event: Any) -> str:
    return str(event["choices"][0]["delta"].get("content") or "")


async def heal(session: aiohttp.ClientSession, cluster: Cluster) -> None:
    """A request that comes at once after a fault is answered, and no process is left that is no shard."""
    status, body = await ask(session, cluster.api, max_tokens=4)
    assert status == 200, body
    assert body["usage"]["completion_tokens"] == 4
    assert await asyncio.to_thread(cluster.strays) == set()


def wait_running(cluster: Cluster, count: int) -> None:
    wait_until(lambda: cluster.view()["queue"]["running"] == count, 10, lambda: str(cluster.view()["queue"]))


def slots(pid: int) -> int:
    """How many slots the shard says are in use."""
    listening = [each for each in psutil.Process(pid).net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    with grpc.insecure_channel(f"127.0.0.1:{listening[0].laddr.port}") as channel:
        hello = pb.HelloRequest(version=PROTOCOL_VERSION)
        return int(rpc.RingStub(channel).Hello(hello, timeout=5).slots)


# ---------------------------------------------------------------- one cluster, from fault to fault


@pytest.mark.parametrize("place", [TAIL, MIDDLE, HEAD], ids=["tail", "middle", "head"])
async def test_a_killed_shard_comes_back_and_its_requests_go_on(
    three: Cluster, session: aiohttp.ClientSession, place: int
) -> None:
    stages = await ready(three)
    victim = psutil.Process(stages[place]["pid"])
    await lose(session, three, victim.kill, GOES_ON_WITHIN_S)
    await heal(session, three)
    after = three.stages()
    assert [s["pid"] for i, s in enumerate(after) if i != place] == [
        s["pid"] for i, s in enumerate(stages) if i != place
    ], "only the dead one is started again"
    assert not alive(victim)


async def test_a_killed_node_takes_its_shards_along_and_its_requests_go_on_with_those_left(
    three: Cluster, session: aiohttp.ClientSession
) -> None:
    stages = await ready(three)
    shards = three.nodes["b"].shards()
    assert {s["pid"] for s in stages if s["name"] == "b"} == {shard.pid for shard in shards} != set()
    await lose(session, three, three.nodes["b"].process.kill, GOES_ON_WITHIN_S)
    wait_gone(shards, ORPHANS_GONE_S)
    await heal(session, three)
    assert {s["name"] for s in three.stages()} == {"a"}


async def test_clients_that_leave_in_the_middle_leave_no_slot_behind(
    three: Cluster, session: aiohttp.ClientSession
) -> None:
    stages = await ready(three)
    speaking: set[int] = set()

    async def listen(number: int) -> None:
        async for event in events(session, three.api):
            if event["choices"][0]["delta"].get("content"):
                speaking.add(number)

    listeners = [asyncio.create_task(listen(number)) for number in range(20)]
    # the others wait for a slot, or compute their prompt
    await asyncio.to_thread(wait_until, lambda: len(speaking) >= 12, 30, lambda: f"{len(speaking)} of 20 speak")
    assert await asyncio.to_thread(slots, stages[TAIL]["pid"]) >= 12
    for listener in listeners:
        listener.cancel()
    await asyncio.wait(listeners)
    await asyncio.to_thread(wait_running, three, 0)
    pids = [stage["pid"] for stage in stages]
    await asyncio.to_thread(wait_until, lambda: not any(map(slots, pids)), 10, lambda: str([*map(slots, pids)]))
    await heal(session, three)


@pytest.mark.parametrize("place", [MIDDLE, HEAD], ids=["progress-deadline", "ping-deadline"])
async def test_a_frozen_shard_is_noticed_though_its_process_lives(
    three: Cluster, session: aiohttp.ClientSession, place: int
) -> None:
    stages = await ready(three)
    frozen = psutil.Process(stages[place]["pid"])
    try:
        await lose(session, three, frozen.suspend, FROZEN_GOES_ON_WITHIN_S)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):  # its node has ended it already
            frozen.kill()
    await heal(session, three)


async def test_sigterm_ends_the_master_in_order_while_it_answers(
    three: Cluster, session: aiohttp.ClientSession
) -> None:
    await ready(three)
    node = three.nodes["a"]
    shards = node.shards()
    async with aclosing(events(session, three.api)) as stream:
        await anext(stream)
        node.send(signal.SIGTERM)
        assert await asyncio.to_thread(node.ended, NODE_ENDS_S) == 0
        async with asyncio.timeout(TOLD_WITHIN_S):
            rest = [event async for event in stream]
        assert rest[-1]["error"]["code"] == "ring_lost", "the client is told that the node stops"
    wait_gone(shards, 0.5)


# ---------------------------------------------------------------- the master dies


async def test_a_killed_master_costs_its_own_clients_their_connection_and_no_other_anything(
    two: Cluster, session: aiohttp.ClientSession
) -> None:
    await ready(two)
    master, other = two.nodes["a"], two.nodes["b"]
    shards = master.shards()
    assert len(shards + other.shards()) == 2
    async with aclosing(events(session, master.api)) as stream:
        await anext(stream)
        if sys.platform == "linux":  # elsewhere nothing ends a process that is stopped, until it goes on
            shards[0].suspend()
        two.master = "b"  # whom the others are asked of from now on
        await lose(session, two, master.process.kill, GOES_ON_WITHIN_S, others=1)
        with pytest.raises(aiohttp.ClientError):
            async with asyncio.timeout(1):
                _ = [event async for event in stream]
    wait_gone(shards, ORPHANS_GONE_S)
    assert two.view()["master"] == other.id
    await heal(session, two)


async def test_a_node_that_comes_back_follows_and_answers_too(
    two: Cluster, session: aiohttp.ClientSession, smollm: Path
) -> None:
    two.start_follower("a", "--model", str(smollm))
    await asyncio.to_thread(wait_until, lambda: two.view("a")["master"] == two.nodes["b"].id, 10, lambda: "no master")
    status, body = await ask(session, two.nodes["a"].api, max_tokens=4)
    assert status == 200, body
    # The rate of the last seconds moves between two looks, until nothing was asked for a while.
    await asyncio.to_thread(
        wait_until,
        lambda: two.view("a")["rings"] == two.view("b")["rings"],
        20,
        lambda: f"{two.view('a')['rings']} here, {two.view('b')['rings']} there",
    )


async def test_sigint_ends_a_master_in_order_and_others_go_on_with_what_it_answered(
    two: Cluster, session: aiohttp.ClientSession
) -> None:
    await ready(two)
    leaving = two.nodes["b"]
    shards = leaving.shards()
    two.master = "a"

    def interrupt() -> None:
        leaving.send(signal.SIGINT)

    await lose(session, two, interrupt, GOES_ON_WITHIN_S)
    assert await asyncio.to_thread(leaving.ended, NODE_ENDS_S) == 0
    wait_gone(shards, 0.5)
    await heal(session, two)
    assert {stage["name"] for stage in two.stages()} == {"a"}


# ---------------------------------------------------------------- models that cannot be loaded


def copy_of(model: Path, directory: Path, **config: Any) -> Path:
    """The same files under another name, with other words in the config."""
    directory.mkdir()
    for file in model.iterdir():
        if file.name != "config.json":
            (directory / file.name).symlink_to(file)
    said = json.loads((model / "config.json").read_text()) | config
    (directory / "config.json").write_text(json.dumps(said))
    return directory


def truncated(model: Path, directory: Path) -> Path:
    copy = copy_of(model, directory)
    weights = copy / "model.safetensors"
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        file.seek(0)
        begun = file.read(8 + length + 1000)
    weights.unlink()
    weights.write_bytes(begun)
    return copy


async def test_models_that_cannot_be_loaded_are_typed_errors_and_are_tried_once(
    smollm: Path, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    models = [
        truncated(smollm, tmp_path / "cut-off"),
        copy_of(smollm, tmp_path / "misfit", num_key_value_heads=9),
        copy_of(smollm, tmp_path / "contradictory", hidden_size=512),
        copy_of(smollm, tmp_path / "foreign", model_type="rwkv7"),
    ]
    with Cluster(tmp_path) as cluster:
        node = cluster.start_master("a", *(word for model in models for word in ("--model", str(model))))
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*(ask(session, cluster.api, model=model.name) for model in models))
            twice = await ask(session, cluster.api, model="misfit")
        cut_off, misfit, contradictory, foreign = answers
        assert (cut_off[0], cut_off[1]["error"]["code"]) == (500, "model_error")
        assert "model.safetensors" in cut_off[1]["error"]["message"]
        assert (foreign[0], foreign[1]["error"]["code"]) == (400, "model_unsupported")
        assert "rwkv7" in foreign[1]["error"]["message"]
        assert (contradictory[0], contradictory[1]["error"]["code"]) == (500, "model_error")
        assert (misfit[0], misfit[1]["error"]["code"]) == (500, "model_error")
        assert "layers 0-29 on a cannot be loaded" in misfit[1]["error"]["message"]
        assert twice == misfit
        assert node.words().count("misfit goes on a") == 1
        assert node.shards() == []
