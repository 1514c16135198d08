"""The guide's examples, run as they stand there, against a node on loopback that keeps to every choice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent.backends.opening import BACKENDS
from ringleader.agent.outcome import RESUMABLE
from ringleader.values import Answer, ArgumentsDelta, CallEnded, CallStarted, ChatRequest, Delta, Finished, TextDelta
from tests.api.scripted import USAGE, ScriptedNode, served

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "agents.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
DEADLINE_S = 60.0  # a new interpreter on a busy machine


class Obedient(ScriptedNode):
    """Calls what is forced, with a text for each argument that is required; says something otherwise."""

    async def answer(self, request: ChatRequest) -> Answer:
        self.requests.append(request)
        return Answer(request.model, self._played(request), ())

    async def _played(self, request: ChatRequest) -> AsyncIterator[Delta]:
        forced = request.tool_choice if isinstance(request.tool_choice, dict) else None
        if forced is None:
            yield TextDelta("It is so.")
            yield Finished("stop", USAGE)
            return
        name = forced["function"]["name"]
        schema = next(tool.parameters for tool in request.tools if tool.name == name) or {}
        yield CallStarted(0, name)
        yield ArgumentsDelta(0, json.dumps(dict.fromkeys(schema.get("required", []), "20 m")))
        yield CallEnded(0)
        yield Finished("tool_calls", USAGE)


@asynccontextmanager
async def obedient() -> AsyncIterator[tuple[Obedient, str]]:
    node = Obedient()
    async with served(node) as server:
        yield node, server.url


async def ran(command: list[str], directory: Path, url: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process of its own."""
    home = str(ROOT / "src")
    environment = {**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{directory}", "RINGLEADER_URL": url, **variables}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def write_files(directory: Path) -> None:
    """Blocks that begin with `# name` are files."""
    for _, block in BLOCKS:
        named = re.match(r"# ([\w.]+\.(?:yaml|py))\n", block)
        if named:
            (directory / named[1]).write_text(block, encoding="utf-8")


COMMANDS = [block.strip() for kind, block in BLOCKS if kind == "sh"]
PROGRAMS = [block for kind, block in BLOCKS if kind == "python" and not block.startswith("# ")]


def test_the_guide_has_the_examples_that_are_run_here() -> None:
    assert len(COMMANDS) == 3
    assert len(PROGRAMS) == 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda text: text[:60])
async def test_a_command_of_the_guide_answers(command: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in words[: words.index("ringleader")])
    arguments = words[words.index("ringleader") + 1 :]
    async with obedient() as (node, url):
        code, out, err = await ran([sys.executable, "-m", "ringleader", *arguments], tmp_path, url, **variables)
    assert code == 0, err
    assert out.strip()
    if not variables:
        assert node.requests[0].tool_choice == {"type": "function", "function": {"name": "verify_fact"}}
        assert "is forced" in err


async def test_the_program_of_the_guide_answers(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAMS[0], encoding="utf-8")
    async with obedient() as (node, url):
        code, out, err = await ran([sys.executable, str(file)], tmp_path, url)
    assert code == 0, err
    assert out.strip().endswith("answered It is so.")
    assert [request.messages[-1].content for request in node.requests][-1] == "20 m: 20 m"


@pytest.mark.parametrize("word", [*BACKENDS, *sorted(RESUMABLE), "answered", "cut", "filtered", "choice_ignored"])
def test_the_guide_tells_of_every_backend_and_every_end(word: Any) -> None:
    assert f"`{word}`" in GUIDE
