"""Agents that people use, as they are installed, each through one loop of a real tool against a real ring.

The agent's own program runs: it asks, the ring calls its tool (forced, see `forcing`), it runs the tool, and sends what
came of it; the ring's last answer ends its loop. What is judged is the protocol: nothing is refused, the call is run
with its arguments, and the agent ends well.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.forcing import DONE, Forcing, forcing
from tests.clients.npm import BIN, needs_npm
from tests.ring.cluster import Cluster
from tests.ring.conftest import smollm

__all__ = ["smollm"]
pytestmark = [pytest.mark.ring, needs_npm]

MODEL = "smollm2-135m"
SECRET = "the heron stands in the reeds"
SYSTEM = "You read files."  # the agents' own prompts are longer than the small model's context
LOOP_DEADLINE_S = 280.0

CODEX = """
model = "{model}"
model_provider = "ring"
model_instructions_file = "{instructions}"
model_context_window = 8192

[agents]
enabled = false  # their tools are two thirds of all that it sends

[features]
goals = false

[model_providers.ring]
name = "ring"
base_url = "{url}/v1"
wire_api = "responses"
"""
OPENCODE: Any = {
    "model": f"ring/{MODEL}",
    "small_model": f"ring/{MODEL}",
    "share": "disabled",
    "autoupdate": False,
    "agent": {"build": {"prompt": SYSTEM, "permission": {"*": "deny", "read": "allow"}}},
}


@dataclass(frozen=True)
class Desk:
    """Where an agent runs: a home of its own, and a directory with a note to read."""

    home: Path
    work: Path

    @property
    def note(self) -> Path:
        return self.work / "note.txt"


@pytest.fixture(scope="module")
def node(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a node with the embedded model in two shards."""
    with Cluster(tmp_path_factory.mktemp("clients")) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "2")
        cluster.wait_ready()
        yield cluster.api


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "home", tmp_path / "work")
    desk.home.mkdir()
    desk.work.mkdir()
    desk.note.write_text(SECRET + "\n")
    return desk


async def run(desk: Desk, command: list[str], **environment: str) -> str:
    """Run an agent to its end; what it printed."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=desk.work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={**kept, "HOME": str(desk.home), "NO_COLOR": "1", **environment},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LOOP_DEADLINE_S):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:  # npm's programs are wrappers: what they started goes with them
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = out.decode(errors="replace")
    assert process.returncode == 0, f"{text[-2000:]}\n{errors.decode(errors='replace')[-2000:]}"
    return text


def events(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def check(proxy: Forcing) -> None:
    """Every request was answered; the tool was run with what the ring called it with; a second turn came."""
    assert set(proxy.statuses) == {200}, proxy.refused
    assert len(proxy.results) == 1
    assert SECRET in proxy.results[0]


async def test_claude_code_reads_a_file_by_messages(node: str, desk: Desk) -> None:
    async with forcing(node, "Read", {"file_path": str(desk.note)}) as (url, proxy):
        command = [str(BIN / "claude"), "-p", f"Read {desk.note}", "--system-prompt", SYSTEM]
        command += ["--tools", "Read", "--allowedTools", "Read", "--output-format", "json"]
        text = await run(
            desk,
            command,
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_AUTH_TOKEN="any",
            ANTHROPIC_MODEL=MODEL,
            ANTHROPIC_DEFAULT_HAIKU_MODEL=MODEL,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
    check(proxy)
    ended = json.loads(text)
    assert (ended["subtype"], ended["is_error"], ended["num_turns"]) == ("success", False, 2)
    assert DONE in ended["result"]


async def test_codex_runs_a_command_by_responses(node: str, desk: Desk) -> None:
    instructions = desk.home / "instructions.md"
    instructions.write_text(SYSTEM)
    async with forcing(node, "exec_command", {"cmd": f"cat {desk.note}"}) as (url, proxy):
        (desk.home / "config.toml").write_text(CODEX.format(model=MODEL, url=url, instructions=instructions))
        command = [str(BIN / "codex"), "exec", "--skip-git-repo-check", "--json"]
        command += ["--dangerously-bypass-approvals-and-sandbox", f"Read {desk.note}"]
        told = events(await run(desk, command, CODEX_HOME=str(desk.home)))
    check(proxy)
    assert told[-1]["type"] == "turn.completed"
    items = [event["item"] for event in told if event["type"] == "item.completed"]
    (ran,) = [item for item in items if item["type"] == "command_execution"]
    assert (ran["aggregated_output"], ran["exit_code"]) == (SECRET + "\n", 0)
    assert DONE in items[-1]["text"]


async def test_opencode_reads_a_file_by_chat_completions(node: str, desk: Desk) -> None:
    async with forcing(node, "read", {"filePath": str(desk.note)}) as (url, proxy):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{url}/v1", "apiKey": "any"},
            "models": {MODEL: {"limit": {"context": 8192, "output": 512}}},
        }
        (desk.work / "opencode.json").write_text(json.dumps({**OPENCODE, "provider": {"ring": provider}}))
        told = events(
            await run(
                desk,
                [str(BIN / "opencode"), "run", "--format", "json", "--title", "t", f"Read {desk.note}"],
                OPENCODE_DISABLE_MODELS_FETCH="1",
                OPENCODE_DISABLE_AUTOUPDATE="1",
                OPENCODE_DISABLE_LSP_DOWNLOAD="1",
            )
        )
    check(proxy)
    (used,) = [event["part"] for event in told if event["type"] == "tool_use"]
    assert (used["tool"], used["state"]["status"]) == ("read", "completed")
    assert DONE in "".join(event["part"]["text"] for event in told if event["type"] == "text")
