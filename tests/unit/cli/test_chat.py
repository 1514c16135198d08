"""`ringleader chat` against a real server over a scripted node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ringleader.cli.chat import chat, read_tools, safe_text
from ringleader.errors import BadRequest, ModelLoading, RingLost
from ringleader.values import TextDelta
from tests.api.scripted import CALLS, HELLO, MODEL, WEATHER, ScriptedNode, Step, served


async def ask(node: ScriptedNode, *arguments: str, stdin: str | None = None) -> Any:
    app = typer.Typer()
    app.command()(chat)
    async with served(node) as server:
        return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--url", server.url], stdin)


@pytest.mark.parametrize("how", [(), ("--no-stream",)])
@pytest.mark.parametrize(
    ("steps", "printed"), [(HELLO, "Hello ☀\n"), (CALLS, 'get_weather {"city": "Oslo"}\nnow {}\n')]
)
async def test_stdout_is_the_answer_and_stderr_what_it_cost(
    steps: Sequence[Step], printed: str, how: tuple[str, ...]
) -> None:
    result = await ask(ScriptedNode(steps), "hi", *how)
    assert result.exit_code == 0
    assert result.stdout == printed
    assert "7 tokens in 4 passes (3 were forced, 4 guessed)" in result.stderr
    assert "tok/s" in result.stderr
    assert ("hm\n" in result.stderr) == (steps is CALLS)


@pytest.mark.parametrize("how", [(), ("--no-stream",)])
async def test_while_the_model_is_loaded_it_says_how_far_it_is_and_then_answers(how: tuple[str, ...]) -> None:
    node = ScriptedNode()
    node.refusals = [ModelLoading(f"tiny is being loaded: {done}%.", retry_after_s=0.01) for done in (10, 10, 90)]
    result = await ask(node, "hi", *how)
    assert (result.exit_code, result.stdout) == (0, "Hello ☀\n")
    assert [result.stderr.count(f"{done}%") for done in (10, 90)] == [1, 1]


async def test_options_reach_the_request_and_the_loaded_model_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([WEATHER["function"], {"name": "now"}]))
    node = ScriptedNode()
    options = ["--tools", str(file), "--force", "now", "--temperature", "0", "--max-tokens", "5"]
    result = await ask(node, "-", *options, stdin="from a pipe")
    assert result.exit_code == 0
    (request,) = node.requests
    assert request.model == MODEL
    assert request.messages[0].content == "from a pipe"
    assert [tool.name for tool in request.tools] == ["get_weather", "now"]
    assert request.tool_choice == {"type": "function", "function": {"name": "now"}}
    assert (request.sampling.temperature, request.max_tokens) == (0.0, 5)


async def test_json_prints_the_apis_object() -> None:
    result = await ask(ScriptedNode(), "hi", "--json", "--model", "m")
    assert json.loads(result.stdout)["choices"][0]["message"]["content"] == "Hello ☀"


async def test_a_refusal_is_said_in_the_nodes_words() -> None:
    result = await ask(ScriptedNode(refuse=BadRequest("tool_choice names 'x'")), "hi")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: tool_choice names 'x'\n"


async def test_an_answer_that_is_lost_midway_keeps_its_text_and_fails() -> None:
    result = await ask(ScriptedNode([TextDelta("once"), RingLost("mac-mini is gone")]), "hi")
    assert result.exit_code == 1
    assert result.stdout == "once\n"
    assert "error: mac-mini is gone" in result.stderr


@pytest.mark.parametrize("content", ["{", "[1]", '[{"function": 1}]', '"x"', '[{"description": "no name"}]'])
async def test_a_bad_tools_file_is_named_before_anything_is_sent(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(content)
    node = ScriptedNode()
    result = await ask(node, "hi", "--tools", str(file))
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert node.requests == []


async def test_empty_questions_missing_files_and_a_force_without_tools_are_usage_errors(tmp_path: Path) -> None:
    for arguments in (["  "], ["hi", "--tools", str(tmp_path / "none")], ["hi", "--force", "x"]):
        assert (await ask(ScriptedNode(), *arguments)).exit_code == 2


def test_a_single_wire_tool_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tool.json"
    file.write_text(json.dumps(WEATHER))
    assert read_tools(file) == [WEATHER]


def test_a_model_cannot_drive_the_terminal() -> None:
    assert safe_text("a\x1b[2J\x9b1m\nb\t☀") == "a[2J1m\nb\t☀"


async def test_interrupting_cancels_the_request() -> None:
    code = "import typer; from ringleader.cli.chat import chat; typer.run(chat)"
    node = ScriptedNode([TextDelta("once"), asyncio.Event()])
    async with served(node) as server:
        arguments = ["-c", code, "hi", "--url", server.url]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(30):
                assert await process.stdout.readexactly(4) == b"once"
                process.send_signal(signal.SIGINT)
                await node.deltas.closed.wait()
                assert await process.wait() == 130
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
