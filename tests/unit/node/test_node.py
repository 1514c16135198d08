"""Whole nodes in this process: they find each other, follow one master, take over, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from ringleader.config import NodeOptions
from ringleader.errors import BadRequest, NodeUnreachable
from ringleader.net.door import door_addresses
from ringleader.node.node import Listening, run_node
from ringleader.trust.invitations import invite

AGREED_WITHIN_S = 20.0  # two busy cores
TAKEN_OVER_WITHIN_S = 10.0


@dataclass
class Running:
    """A node of this process."""

    task: asyncio.Task[None]
    listening: Listening
    state: Path

    async def view(self, session: aiohttp.ClientSession) -> Any:
        async with session.get(f"{self.listening.api}/v1/cluster") as answer:
            return await answer.json()

    async def stop(self) -> None:
        self.task.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await self.task


class Nodes:
    """Starts nodes below one directory."""

    def __init__(self, root: Path, secure: bool) -> None:
        self.root = root
        self.secure = secure
        self.made: list[Running] = []

    async def start(self, name: str, **more: Any) -> Running:
        state = self.root / name / "cluster"
        options = NodeOptions(
            name=name,
            host="127.0.0.1",
            control_port=0,
            api_port=0,
            join_port=0,
            mdns=False,
            insecure=not self.secure,
            home=self.root,
            state=state,
            **more,
        )
        ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(run_node(options, ready.set_result), name=name)
        either: set[asyncio.Future[Any]] = {task, ready}
        await asyncio.wait(either, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        self.made.append(Running(task, ready.result(), state))
        return self.made[-1]

    async def join(self, name: str, first: Running) -> Running:
        """A node that comes to where `first` is."""
        if not self.secure:
            return await self.start(name, peers=(first.listening.control,))
        token = invite(first.state, door_addresses(first.state), 60.0, 1, time.time())
        return await self.start(name, join=str(token))


@pytest.fixture(params=[False, True], ids=["clear", "tls"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Nodes]:
    """After them there is no task, process or thread of theirs left."""
    before = asyncio.all_tasks()
    nodes = Nodes(tmp_path, request.param)
    yield nodes
    for each in nodes.made:
        if not each.task.done():
            await each.stop()
    known = {*before, asyncio.current_task()}
    await until(lambda: not asyncio.all_tasks() - known, 5)
    assert psutil.Process().children() == []


async def until(condition: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def agreed(session: aiohttp.ClientSession, nodes: list[Running], within_s: float) -> str:
    """Until all of `nodes` show each other as present and the same master; its id."""
    ids = {node.listening.node for node in nodes}
    async with asyncio.timeout(within_s):
        while True:
            views = [await node.view(session) for node in nodes]
            present = [{row["id"] for row in view["nodes"] if row["state"] == "ok"} for view in views]
            masters = {view["master"] for view in views}
            if all(each == ids for each in present) and len(masters) == 1 and masters <= ids:
                return str(masters.pop())
            await asyncio.sleep(0.05)


async def test_two_nodes_follow_one_master_and_the_other_takes_over_when_it_is_told_to_stop(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a = await nodes.start("a")
    b = await nodes.join("b", a)
    async with aiohttp.ClientSession() as session:
        master = await agreed(session, [a, b], AGREED_WITHIN_S)
        leads, other = (a, b) if master == a.listening.node else (b, a)
        assert (await other.view(session))["secure"] is nodes.secure
        begun = time.monotonic()
        await leads.stop()
        assert await agreed(session, [other], TAKEN_OVER_WITHIN_S) == other.listening.node
        assert time.monotonic() - begun < TAKEN_OVER_WITHIN_S
        (gone,) = [row for row in (await other.view(session))["nodes"] if row["id"] == master] or [None]
        assert gone is None or gone["state"] == "lost"
    await other.stop()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_master_hears_a_node_s_goodbye_and_does_not_wait_for_its_silence(nodes: Nodes) -> None:
    a = await nodes.start("a")
    b = await nodes.join("b", a)
    async with aiohttp.ClientSession() as session:
        master = await agreed(session, [a, b], AGREED_WITHIN_S)
        leads, other = (a, b) if master == a.listening.node else (b, a)
        await other.stop()
        rows = (await leads.view(session))["nodes"]
        assert [(row["state"], row["detail"]) for row in rows if not row["is_master"]] == [("lost", "it was stopped")]


async def test_a_node_that_has_stopped_can_be_started_again_at_once_as_the_same(nodes: Nodes) -> None:
    first = await nodes.start("a")
    with pytest.raises(NodeUnreachable, match="runs with"):
        await nodes.start("a")
    await first.stop()
    port = int(first.listening.control.rpartition(":")[2])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    again = await nodes.start("a")
    assert again.listening.node == first.listening.node


async def test_a_node_whose_api_port_is_taken_says_so_and_leaves_nothing_behind(nodes: Nodes) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = NodeOptions(
            name="a",
            host="127.0.0.1",
            control_port=0,
            api_port=taken.getsockname()[1],
            mdns=False,
            insecure=True,
            state=nodes.root / "a",
        )
        with pytest.raises(NodeUnreachable, match="--api-port"):
            await run_node(options, lambda listening: None)
    assert (await nodes.start("b")).listening.node, "and others start"


@pytest.mark.parametrize("peer", ["", ":52416", "a b:1", "host:x"])
async def test_a_peer_that_is_no_address_is_refused_before_anything_is_begun(tmp_path: Path, peer: str) -> None:
    options = NodeOptions("a", insecure=True, peers=(peer,), state=tmp_path / "state", home=tmp_path)
    with pytest.raises(BadRequest) as caught:
        await run_node(options, lambda listening: None)
    assert caught.value.param == "peer"
    assert not (tmp_path / "state").exists()
