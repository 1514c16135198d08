"""A node as a child process of this one: started, awaited, ended; used by commands that bring their own ring."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ringleader.errors import NodeUnreachable

READY_DEADLINE_S = 90.0  # a busy machine reads the libraries for the first time
STOP_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class LocalNode:
    """Where the child can be reached, and its log."""

    api: str
    control: str
    log: Path


@asynccontextmanager
async def local_node(name: str, directory: Path, *arguments: str) -> AsyncIterator[LocalNode]:
    """Run `ringleader node ARGUMENTS` with free ports and what it keeps in `directory`; it ends with the block, or
    with this process. It speaks on loopback only, in the clear.

    Raises NodeUnreachable with the end of its log when it does not come up.
    """
    log = directory / f"{name}.log"
    own = ("--name", name, "--state", str(directory / f"{name}.state"), "--port", "0", "--api-port", "0")
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ringleader", "node", "--json", "--leash", "--insecure", "--no-mdns"),
            *(*own, *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # ^C is for this process, which then ends its nodes in order
        )
    try:
        yield await _ready(process, log)
    finally:
        await _stop(process)


async def _ready(process: Process, log: Path) -> LocalNode:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_DEADLINE_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise NodeUnreachable(f"the node did not start: {_last_words(log)}")
    said = json.loads(line)
    return LocalNode(said["api"], said["control"], log)


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
    return " | ".join(lines) or "it said nothing"


async def _stop(process: Process) -> None:
    """Let go of the leash, which ends the node in order; then insist."""
    if process.stdin is not None:
        process.stdin.close()
    for insist in (process.terminate, process.kill, None):
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await process.wait()
                return
        except TimeoutError:
            if insist is not None:
                insist()
