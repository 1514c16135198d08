"""Every port of a node goes on serving, whatever is thrown at it: control, join, a shard's, the API."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from ringleader.net import door as door_module
from ringleader.net.joining import join
from ringleader.shard.process import open_server
from ringleader.trust import channels
from ringleader.trust.credentials import PROOF_FILE, Credentials, load
from tests.api.scripted import ScriptedNode, served
from tests.security.clusters import make_cluster
from tests.security.garbage import h2_messes, messes, slow_visitors
from tests.security.ports import Listening, greet, knock, listening, open_door

PORTS = ("control", "join", "shard", "api")
HANDSHAKE_S = 0.5


@dataclass
class Node:
    """A node's ports, and for each a question whose right answer shows that it serves."""

    ports: dict[str, int] = field(default_factory=dict)
    serves: dict[str, Callable[[], Awaitable[bool]]] = field(default_factory=dict)
    member: Credentials | None = None
    services: list[Listening] = field(default_factory=list)


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(channels, "HANDSHAKE_DEADLINE_S", HANDSHAKE_S)
    monkeypatch.setattr(door_module, "HANDSHAKE_DEADLINE_S", HANDSHAKE_S)
    cluster = make_cluster(tmp_path)
    member = cluster.member("b")
    made = Node(member=member)
    joined = iter(range(10_000))
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(listening(cluster.founder))
        shard = Listening(cluster.founder)
        server, shard.address = await open_server(shard, "127.0.0.1:0", cluster.founder)
        stack.push_async_callback(server.stop, None)
        door = await stack.enter_async_context(open_door(cluster.founder))
        api = await stack.enter_async_context(served(ScriptedNode()))
        made.services = [control, shard]

        def greets(address: str) -> Callable[[], Awaitable[bool]]:
            async def asked() -> bool:
                return await greet(address, member, cluster.founder.node) == ""

            return asked

        async def lets_in() -> bool:
            directory = tmp_path / f"joined{next(joined)}" / "cluster"
            return load(directory) is None and bool((await join(str(door.invite()), directory, "x")).certificate)

        async def answers() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{api.url}/health") as response:
                return response.status == 200

        for name, port, serves in (
            ("control", control.address, greets(control.address)),
            ("shard", shard.address, greets(shard.address)),
            ("join", door.address, lets_in),
            ("api", api.url, answers),
        ):
            made.ports[name] = int(port.rpartition(":")[2])
            made.serves[name] = serves
        yield made


@pytest.mark.parametrize("name", PORTS)
async def test_no_bytes_at_all_keep_a_port_from_serving(
    node: Node, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for mess in messes():
            await knock(node.ports[name], mess)
        assert await node.serves[name]()
    assert sum(len(each.heard) for each in node.services) <= 1, "none of it was heard as a call"
    assert not any(each.frames for each in node.services)
    assert sum("refused" in line for line in caplog.messages) < 10, "it does not fill the log"
    assert not [record for record in caplog.records if record.exc_info], "nor with tracebacks"


@pytest.mark.parametrize("name", PORTS)
async def test_slow_visitors_take_nobodys_place_and_are_turned_out(node: Node, name: str) -> None:
    async with slow_visitors(node.ports[name], 24) as readers:
        assert await node.serves[name]()
        if name != "api":  # it waits for a request for as long as a browser may keep a connection open
            async with asyncio.timeout(10 * HANDSHAKE_S):
                await asyncio.gather(*(_hung_up(reader) for reader in readers))
        assert await node.serves[name]()


@pytest.mark.parametrize("name", ["control", "shard"])
async def test_a_members_own_broken_frames_break_its_connection_and_no_other(node: Node, name: str) -> None:
    assert node.member is not None
    context = ssl.create_default_context(cadata=node.member.authority.decode())
    context.load_cert_chain(node.member.directory / PROOF_FILE)
    context.set_alpn_protocols(["h2"])
    for mess in h2_messes():
        _, writer = await asyncio.open_connection(
            "127.0.0.1", node.ports[name], ssl=context, server_hostname=f"{node.member.cluster}.ringleader"
        )
        try:
            writer.write(mess)
            async with asyncio.timeout(2):
                await writer.drain()
        except (OSError, TimeoutError):
            pass
        assert await node.serves[name](), "while it is still connected"
        writer.close()


async def test_what_was_thrown_leaves_no_open_files_behind(node: Node) -> None:
    for serves in node.serves.values():
        assert await serves()
    process = psutil.Process()
    before = process.num_fds()
    for port in node.ports.values():
        await asyncio.gather(*(knock(port, mess) for mess in messes()))
    async with asyncio.timeout(15):
        while process.num_fds() > before + 8:  # noqa: ASYNC110  # sockets close on gRPC's own threads
            await asyncio.sleep(0.1)


async def _hung_up(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(65_536):
            pass
    except OSError:
        pass
