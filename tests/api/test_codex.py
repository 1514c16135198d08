"""Codex' own command line runs a tool by a scripted answer, and goes on with its result."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Delta, Finished, ReasoningDelta
from tests.api.scripted import HELLO, MODEL, USAGE, ScriptedNode, served
from tests.clients.npm import WHY, program

CODEX = program("codex")
DEADLINE_S = 90
CALLED: tuple[Delta, ...] = (
    ReasoningDelta("hm"),
    CallStarted(0, "exec_command"),
    ArgumentsDelta(0, '{"cmd": "echo ring-was-'),
    ArgumentsDelta(0, 'here"}'),
    CallEnded(0),
    Finished("tool_calls", USAGE),
)
CONFIG = """
model = "{model}"
model_provider = "ring"
[model_providers.ring]
name = "ring"
base_url = "{url}/v1"
wire_api = "responses"
"""


async def said_by_codex(url: str, home: Path) -> list[Any]:
    """What it tells of one task, event by event."""
    await asyncio.to_thread((home / "config.toml").write_text, CONFIG.format(model=MODEL, url=url))
    command = [
        str(CODEX),
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "--json",
        "hi",
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=home,
        env={**os.environ, "CODEX_HOME": str(home)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]


@pytest.mark.skipif(CODEX is None, reason=WHY)
async def test_codex_runs_a_command_and_hears_of_its_result(tmp_path: Path) -> None:
    node = ScriptedNode(CALLED, HELLO)
    async with served(node) as server:
        events = await said_by_codex(server.url, tmp_path)
    kinds = [event["type"] for event in events]
    assert "turn.failed" not in kinds, events
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    (ran,) = [item for item in items if item["type"] == "command_execution"]
    assert (ran["aggregated_output"], ran["exit_code"]) == ("ring-was-here\n", 0)
    assert items[-1]["text"] == "Hello ☀"
    first, second = node.requests
    assert "exec_command" in {tool.name for tool in first.tools}
    called, result = second.messages[-2:]
    assert (called.reasoning, called.tool_calls[0].name) == ("hm", "exec_command")
    assert "ring-was-here" in (result.content or "")
