from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from ringleader.api.app import make_app, serve
from ringleader.api.events import FIRST_SIGHT_S, LAST_MAX, LISTENERS_MAX, Cursor
from tests.api.scripted import ScriptedNode, served

DEADLINE_S = 20.0


def event(at: float, text: str, node: str = "a") -> dict[str, Any]:
    return {"at": at, "kind": "note", "model": None, "text": text, "node": node}


ONE, TWO, THREE = event(1.0, "one"), event(2.0, "two"), event(3.0, "three")


def test_at_first_the_last_few_are_told_and_then_what_is_new() -> None:
    cursor = Cursor(2, lambda: 100.0)
    assert cursor.fresh([ONE, TWO, THREE]) == [TWO, THREE]
    assert cursor.fresh([ONE, TWO, THREE]) == []
    four = event(4.0, "four")
    assert cursor.fresh([TWO, THREE, four]) == [four]
    assert Cursor(0).fresh([ONE]) == []


def test_of_one_moment_each_event_is_told_once() -> None:
    cursor = Cursor(0)
    cursor.fresh([THREE])
    other = event(3.0, "another of the same step")
    assert cursor.fresh([THREE, other]) == [other]
    assert cursor.fresh([THREE, other]) == []


def test_a_new_master_does_not_tell_its_whole_past() -> None:
    now = 1000.0
    cursor = Cursor(5, lambda: now)
    cursor.fresh([ONE])
    old, young = event(now - 2 * FIRST_SIGHT_S, "long ago", "b"), event(now - 1, "I lead", "b")
    assert cursor.fresh([ONE, old, young]) == [young]
    assert cursor.fresh([ONE, old, young]) == []


def test_nodes_whose_clocks_differ_are_each_heard() -> None:
    cursor = Cursor(5, lambda: 1000.0)
    cursor.fresh([event(5.0, "x", "slow"), event(900.0, "y", "fast")])
    late = event(6.0, "z", "slow")
    assert cursor.fresh([event(5.0, "x", "slow"), late, event(900.0, "y", "fast")]) == [late]


async def read(response: aiohttp.ClientResponse) -> Any:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            line = await response.content.readline()
            if line.startswith(b"data: {"):
                return json.loads(line.removeprefix(b"data: "))
            assert line, "the stream ended"


async def test_events_stream_as_they_happen_and_silence_has_comments() -> None:
    node = ScriptedNode()
    node.picture["events"] = [ONE]
    async with served(node, keep_alive_s=0.05) as server, aiohttp.ClientSession(server.url) as session:
        async with session.get("/v1/cluster/events") as response:
            assert response.content_type == "text/event-stream"
            assert await read(response) == ONE
            node.picture["events"] = [ONE, TWO]
            assert await read(response) == TWO
            async with asyncio.timeout(DEADLINE_S):
                while await response.content.readline() != b": keep-alive\n":
                    pass


async def test_who_asks_for_headers_only_is_answered_at_once() -> None:
    async with served(ScriptedNode()) as server, aiohttp.ClientSession(server.url) as session:
        async with asyncio.timeout(DEADLINE_S), session.head("/v1/cluster/events") as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            assert await response.read() == b""
        async with session.head("/v1/cluster/events", params={"last": "x"}) as response:
            assert response.status == 400


async def test_a_listener_does_not_hold_up_the_end_of_the_server() -> None:
    node = ScriptedNode()
    node.picture["events"] = [ONE]
    server = await serve(make_app(node, node, node), port=0, shutdown_s=DEADLINE_S)
    async with aiohttp.ClientSession(server.url) as session, session.get("/v1/cluster/events") as response:
        await read(response)
        async with asyncio.timeout(DEADLINE_S / 2):
            await server.close()
        assert (await response.content.read()).endswith(b"data: [DONE]\n\n")


async def test_too_many_listeners_and_a_wrong_number_are_refused_and_those_who_left_make_room() -> None:
    node = ScriptedNode()
    async with served(node) as server, aiohttp.ClientSession(server.url) as session:
        for wrong in ("x", "-1", str(LAST_MAX + 1), "²"):
            async with session.get("/v1/cluster/events", params={"last": wrong}) as response:
                assert (response.status, (await response.json())["error"]["param"]) == (400, "last")
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(server.url, connector=connector) as many:
            held = [await many.get("/v1/cluster/events") for _ in range(LISTENERS_MAX)]
            async with session.get("/v1/cluster/events") as response:
                assert response.status == 429
            for each in held:
                each.close()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                async with session.get("/v1/cluster/events") as response:
                    if response.status == 200:
                        break
                await asyncio.sleep(0.05)
