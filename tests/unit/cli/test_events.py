from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ringleader.api.app import make_app, serve
from ringleader.cli.events import REMEMBERED, Told, line
from tests.api.scripted import ScriptedNode

DEADLINE_S = 60.0
JOINED = {"at": 1700000000.5, "kind": "node_joined", "model": None, "text": "node b joined", "node": "a"}
GONE = {"at": 1700000009.5, "kind": "node_lost", "model": None, "text": "node b is gone", "node": "a"}


@asynccontextmanager
async def listening(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "ringleader", "cluster", "events", *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


async def test_events_are_told_once_each_across_a_restart_of_the_node_and_interrupt_ends_it_cleanly() -> None:
    node = ScriptedNode()
    node.picture["events"] = [JOINED]
    server = await serve(make_app(node, node, node), port=0, shutdown_s=0.05)
    try:
        async with listening("--json", "--url", server.url) as process:
            assert await said(process) == JOINED
            await server.close()
            assert process.stderr is not None
            assert b"still looking, ^C ends" in await process.stderr.readline()
            node.picture["events"] = [JOINED, GONE]
            server = await serve(make_app(node, node, node), port=server.port, shutdown_s=0.05)
            assert await said(process) == GONE
            process.send_signal(signal.SIGINT)
            rest, errors = await process.communicate()
            assert (process.returncode, rest) == (0, b"")
            assert b"Traceback" not in errors
    finally:
        await server.close()


def test_an_event_is_one_line_whatever_it_holds() -> None:
    shown = line({**JOINED, "text": "two\nlines \x1b[2J"})
    assert shown.count("\n") == 0
    assert "\x1b" not in shown
    assert "node_joined" in shown
    assert "a: two lines" in shown
    assert line({})


def test_what_was_told_is_remembered_within_bounds() -> None:
    told = Told()
    assert told.is_new(JOINED)
    assert not told.is_new(dict(JOINED))
    for number in range(REMEMBERED):
        told.is_new({"text": number})
    assert told.is_new(JOINED)
