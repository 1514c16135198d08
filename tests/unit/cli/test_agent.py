"""`ringleader agent` against a real server over a scripted node: what it prints, keeps and gives the shell."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ringleader.agent.contracts import Registry, tool
from ringleader.agent.tools import builtin_tools
from ringleader.cli import agent_tools
from ringleader.cli.agent import app
from ringleader.errors import RingLost
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Finished, ReasoningDelta, TextDelta
from tests.api.scripted import USAGE, ScriptedNode, Step, served

NAMED = {"type": "function", "function": {"name": "verify_fact"}}
CLAIM = {"claim": "built in 1828", "evidence": "The lighthouse was built in 1828."}


def calling(name: str, arguments: Any) -> tuple[Step, ...]:
    return (
        CallStarted(0, name),
        ArgumentsDelta(0, json.dumps(arguments)),
        CallEnded(0),
        Finished("tool_calls", USAGE),
    )


def saying(text: str) -> tuple[Step, ...]:
    return (TextDelta(text), Finished("stop", USAGE))


VERIFY = calling("verify_fact", CLAIM)
SO = saying("It is so.")


@tool(tier=1, effects=["write"])
def write_note(text: str) -> str:
    """Writes a note."""
    return f"wrote {text}"


@pytest.fixture
def with_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_tools, "builtin_tools", lambda: Registry([*builtin_tools(), write_note]))


async def ask(turns: Sequence[Sequence[Step]], *arguments: str, stdin: str | None = None) -> tuple[Any, ScriptedNode]:
    node = ScriptedNode(*turns)
    async with served(node) as server:
        words = list(arguments)
        if words[0] != "tools":
            words += ["--url", server.url]
        result = await asyncio.to_thread(CliRunner().invoke, app, words, stdin)
    return result, node


async def test_a_task_forces_its_first_call_and_prints_what_the_model_says_to_a_pipe() -> None:
    result, node = await ask([VERIFY, SO], "run", "Is it so?", "--tools", "verify_fact", "--force", "verify_fact")
    assert result.exit_code == 0, result.output
    assert result.stdout == "It is so.\n"
    assert [request.tool_choice for request in node.requests] == [NAMED, "auto"]
    assert [t.name for t in node.requests[0].tools] == ["verify_fact"]
    for words in (
        "turn    1 · verify_fact is forced",
        'call    verify_fact {"claim": "built in 1828"',
        'got     verify_fact: {"verdict": "supported"',
        "turn    2 · auto",
        "11 + 7 tokens",
        "end     answered · 2 turns, 1 call · 22 + 14 tokens",
    ):
        assert words in result.stderr


async def test_a_quiet_run_prints_its_answer_alone() -> None:
    aside = (TextDelta("Let me see."), *VERIFY)
    loud, _ = await ask([aside, SO], "run", "Is it so?")
    assert loud.stdout == "Let me see.\nIt is so.\n"
    result, _ = await ask([aside, SO], "run", "Is it so?", "--quiet")
    assert (result.stdout, result.stderr) == ("It is so.\n", "")
    result, _ = await ask([aside, SO], "run", "Is it so?", "-q", "--max-turns", "1")
    assert "end     stopped after 1 turns" in result.stderr


async def started(url: str, *words: str) -> asyncio.subprocess.Process:
    """A process of its own, with pipes."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ringleader", "agent", "run", "Is it so?", "--url", url, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("as_json", [False, True])
async def test_text_goes_into_a_pipe_while_it_is_written(as_json: bool) -> None:
    more = asyncio.Event()
    node = ScriptedNode((ReasoningDelta("hm"), TextDelta("It is "), more, TextDelta("so."), Finished("stop", USAGE)))
    async with served(node) as server, asyncio.timeout(60):
        process = await started(server.url, *(["--json"] if as_json else []))
        assert process.stdout is not None
        first = await process.stdout.readuntil(b"It is ")
        assert not more.is_set() and process.returncode is None
        more.set()
        rest, errors = await process.communicate()
    if as_json:
        told = [json.loads(line) for line in (first + rest).splitlines()]
        texts = [each["text"] for each in told if each["event"] == "text_came"]
        assert (texts, told[-1]["event"]) == (["It is ", "so."], "step_ended")
    else:
        assert first + rest == b"It is so.\n"
        assert b"  thinks  hm\n" in errors


async def test_an_answer_that_was_cut_says_so_and_how_it_may_be_longer(tmp_path: Path) -> None:
    cut = (TextDelta("It is"), Finished("length", USAGE))
    result, node = await ask([cut], "run", "Is it so?")
    assert result.exit_code == 4
    assert node.requests[0].max_tokens == 2048
    assert "end     the answer was cut at 7 tokens by the model's own limit" in result.stderr
    assert "next    go on: run again with --max-tokens N, or with --state FILE" in result.stderr
    state = tmp_path / "my state.json"
    result, _ = await ask([cut], "run", "Is it so?", "--max-tokens", "7", "--state", str(state))
    assert "end     the answer was cut at 7 tokens, the bound on one turn (answer_tokens_max) · 1 turn" in result.stderr
    assert f"ringleader agent resume '{state}' --max-tokens N --url http" in result.stderr
    result, node = await ask([SO], "resume", str(state), "--max-tokens", "70")
    assert (result.exit_code, result.stdout) == (0, "It is so.\n")
    assert [message.role for message in node.requests[0].messages] == ["user"]


async def test_json_gives_every_event_on_a_line_of_its_own() -> None:
    result, _ = await ask([VERIFY, SO], "run", "-", "--force", "verify_fact", "--json", stdin="Is it so?")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["event"] for each in told][:2] == ["step_started", "turn_started"]
    assert told[-1]["event"] == "step_ended"
    assert told[-1]["outcome"]["kind"] == "answered"
    assert next(each for each in told if each["event"] == "call_started")["arguments"] == json.dumps(CLAIM)


async def test_options_bound_the_run_and_its_code_says_that_there_is_no_answer() -> None:
    options = ["--max-turns", "1", "--max-tokens", "9", "--temperature", "0", "--tier", "2", "--role", "checker"]
    result, node = await ask([VERIFY], "run", "Is it so?", *options)
    assert result.exit_code == 4
    assert "stopped after 1 turns (turns_max)" in result.stderr
    (request,) = node.requests
    assert (request.max_tokens, request.sampling.temperature) == (9, 0.0)
    assert request.messages[0].content == "You are the checker."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "give a task"),
        (["run", "x", "--plan", "y.yaml"], "not both"),
        (["run", "x", "--force", "verify_fcat"], "Did you mean verify_fact"),
        (["run", "x", "--tools", "verify_fcat"], "no tool is named"),
        (["run", "x", "--backend", "opnai"], "Did you mean openai"),
        (["run", "x", "--approve", "--deny"], "contradict"),
        (["run", "x", "--max-turns", "0"], "--max-turns: "),
        (["run", "x", "--max-calls", "-1"], "--max-calls: "),
        (["run", "x", "--max-tokens", "0"], "--max-tokens: "),
        (["run", "x", "--budget", "0"], "--budget: "),
        (["run", "x", "--timeout", "0"], "--timeout: "),
        (["run", "x", "--timeout", "nan"], "--timeout: "),
        (["run", "x", "--temperature", "-1"], "--temperature must be"),
        (["run", "x", "--temperature", "nan"], "--temperature must be"),
        (["run", "x", "--tier", "99"], "tiers go from 0 to 2"),
        (["run", "x", "--tier", "-1"], "tier must be 0 or more"),
        (["tools", "--tier", "99"], "tiers go from 0 to 2"),
        (["run", "x", "--json", "--quiet"], "contradict"),
        (["run", " "], "empty prompt"),
        (["run", "--plan", "nowhere.yaml"], "cannot be read"),
        (["run", "--plan", "x.yaml", "--tier", "1"], "a plan's steps have their own"),
        (["resume", "nowhere.json"], "cannot be read"),
    ],
)
async def test_what_is_wrong_is_told_before_anything_is_asked(arguments: list[str], words: str) -> None:
    result, node = await ask([SO], *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert node.requests == []


async def test_a_key_that_is_missing_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result, _ = await ask([SO], "run", "x", "--backend", "openai", "--model", "m")
    assert result.exit_code == 2
    assert "set OPENAI_API_KEY" in result.stderr


async def test_an_sdk_that_is_not_installed_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    result, _ = await ask([SO], "run", "x")
    assert result.exit_code == 2
    assert "pip install 'ringleader[agent]'" in result.stderr


async def test_nobody_at_the_address_and_a_ring_that_is_lost_have_codes_of_their_own() -> None:
    alone = await asyncio.to_thread(CliRunner().invoke, app, ["run", "x", "--url", "http://127.0.0.1:9"])
    assert alone.exit_code == 3
    assert "ringleader node" in alone.stderr
    node = ScriptedNode(refuse=RingLost("the shard died", resumable=False))
    async with served(node) as server:
        lost = await asyncio.to_thread(CliRunner().invoke, app, ["run", "x", "--url", server.url])
    assert lost.exit_code == 1
    assert "the shard died" in lost.stderr


# ---------------------------------------------------------------- approval


@pytest.mark.usefixtures("with_note")
async def test_a_call_that_writes_rests_is_kept_and_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    note = calling("write_note", {"text": "x"})
    result, _ = await ask([note], "run", "note it", "--tier", "1", "--state", str(state))
    assert result.exit_code == 5
    assert 'asks    write_note {"text": "x"} needs a yes' in result.stderr
    assert f"ringleader agent resume {state} --approve" in result.stderr
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    result, node = await ask([saying("noted")], "resume", str(state), "--approve")
    assert (result.exit_code, result.stdout) == (0, "noted\n")
    assert node.requests[0].messages[-1].content == "wrote x"


@pytest.mark.usefixtures("with_note")
@pytest.mark.parametrize(("option", "told"), [("--approve", "wrote x"), ("--deny", "not allowed")])
async def test_approve_and_deny_decide_for_every_call(option: str, told: str) -> None:
    note = calling("write_note", {"text": "x"})
    result, node = await ask([note, saying("noted")], "run", "note it", "--tier", "1", option)
    assert result.exit_code == 0
    assert told in (node.requests[1].messages[-1].content or "")


async def test_a_bound_that_was_reached_can_be_widened(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    result, _ = await ask([VERIFY], "run", "Is it so?", "--max-turns", "1", "--state", str(state))
    assert result.exit_code == 4
    assert f"ringleader agent resume {state} --max-turns N" in result.stderr
    result, node = await ask([SO], "resume", str(state), "--max-turns", "3")
    assert (result.exit_code, result.stdout) == (0, "It is so.\n")
    assert [message.role for message in node.requests[0].messages] == ["user", "assistant", "tool"]


async def test_a_run_that_is_done_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    await ask([SO], "run", "Is it so?", "--state", str(state))
    result, node = await ask([SO], "resume", str(state))
    assert result.exit_code == 2
    assert "nothing to go on with" in result.stderr
    assert node.requests == []


async def test_a_state_that_cannot_be_kept_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    result, node = await ask([SO], "run", "x", "--state", str(tmp_path / "nowhere" / "state.json"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert node.requests == []


async def test_an_interrupt_ends_the_request_tells_how_far_it_came_and_the_kept_state_goes_on(tmp_path: Path) -> None:
    state, hang = tmp_path / "state.json", asyncio.Event()
    node = ScriptedNode((TextDelta("It"), hang))
    async with served(node) as server, asyncio.timeout(60):
        process = await started(server.url, "--force", "any", "--state", str(state))
        assert process.stdout is not None and await process.stdout.readexactly(2) == b"It"
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        await node.deltas.closed.wait()
    assert (process.returncode, out) == (130, b"\n")
    assert b"\n  end     stopped before its end \xc2\xb7 0 turns, 0 calls \xc2\xb7 0 + 0 tokens" in err
    assert f"  next    go on: ringleader agent resume {state} --url http".encode() in err
    kept = json.loads(state.read_text())["current"]
    assert (kept["phase"], kept["outcome"]["kind"], kept["turn"]) == ("ended", "cancelled", 0)
    result, again = await ask([VERIFY, SO], "resume", str(state))
    assert result.exit_code == 0
    assert again.requests[0].tool_choice == "required"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_run_that_is_ended_leaves_nothing_behind_that_its_shell_has_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    shell = calling("shell", {"command": f"echo $$ > pid; kill -{int(number)} $PPID; exec sleep 300"})
    async with served(ScriptedNode(shell)) as server, asyncio.timeout(60):
        process = await started(server.url, "--shell", str(tmp_path), "--tier", "2", "--approve")
        _, err = await process.communicate()
    assert process.returncode == 130 and b"  end     stopped before its end" in err
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        async with asyncio.timeout(20):  # its parent has ended, so that another has to reap it
            while True:
                os.kill(pid, 0)
                await asyncio.sleep(0.05)


async def test_a_tool_that_only_an_option_adds_is_told_with_it() -> None:
    process = await started("http://127.0.0.1:9", "--tools", "shell", "--tier", "2")
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"asks for shell, which is there only with --shell DIR" in b" ".join(err.split())


# ---------------------------------------------------------------- plans, tools, providers


async def test_a_plan_runs_its_steps_and_prints_each_answer(tmp_path: Path) -> None:
    plan = tmp_path / "steps.yaml"
    plan.write_text(
        "roles: {checker: You check., writer: You write.}\n"
        "steps:\n"
        "- {name: check, role: checker, tools: [verify_fact], tool_choice: verify_fact, prompt: 'Is it so?'}\n"
        "- {name: report, role: writer, prompt: Write it.}\n",
        encoding="utf-8",
    )
    result, node = await ask([VERIFY, SO, saying("Written.")], "run", "--plan", str(plan))
    assert result.exit_code == 0, result.output
    assert result.stdout == "It is so.\nWritten.\n"
    assert [request.tool_choice for request in node.requests] == [NAMED, "auto", None]
    assert "It is so." in (node.requests[2].messages[-1].content or "")
    assert "step    check · checker · tier 0 · verify_fact" in result.stderr


async def test_tools_are_listed_and_have_schemas() -> None:
    result, _ = await ask([SO], "tools")
    assert "verify_fact" in result.stdout
    result, _ = await ask([SO], "tools", "--json", "--tier", "0")
    listed = {each["name"]: each for each in json.loads(result.stdout)}
    assert "claim" in listed["verify_fact"]["parameters"]["properties"]
    assert all(each["tier"] == 0 for each in listed.values())


async def test_options_add_the_tools_that_need_something(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the lighthouse is 20 m tall", encoding="utf-8")
    options = ["--root", str(tmp_path), "--allow-host", "example.org", "--shell", str(tmp_path)]
    result, _ = await ask([SO], "tools", *options)
    rows = {line.split()[0]: line for line in result.stdout.splitlines()[1:]}
    assert {"verify_fact", "calculator", "read_file", "fetch", "shell"} <= set(rows)
    assert "always" in rows["shell"]
    reading = calling("read_file", {"path": "note.txt"})
    result, node = await ask([reading, SO], "run", "How tall?", "--tier", "1", "--force", "read_file", *options)
    assert result.exit_code == 0, result.stderr
    assert [t.name for t in node.requests[0].tools] == ["verify_fact", "calculator", "read_file", "fetch"]
    assert "20 m tall" in (node.requests[1].messages[-1].content or "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--root", "nowhere"], "no directory"),
        (["--shell", "nowhere"], "directory"),
        (["--allow-private"], "needs --allow-host"),
        (["--allow-host", "http://x/y z"], "host"),
    ],
)
@pytest.mark.parametrize("command", [["tools"], ["run", "x"]])
async def test_a_tool_that_is_handed_nothing_of_use_is_told(command: list[str], options: list[str], words: str) -> None:
    result, _ = await ask([SO], *command, *options)
    assert result.exit_code == 2
    assert words in result.stderr


async def test_a_provider_of_ones_own_takes_the_backends_place_and_the_lost_choice_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("my_provider")
    module.answer = lambda request: {"content": "mine"}  # type: ignore[attr-defined] # a module made for this
    monkeypatch.setitem(sys.modules, "my_provider", module)
    monkeypatch.setenv("AGENTIC_EK_PROVIDER", "my_provider:answer")
    result, node = await ask([SO], "run", "Is it so?", "--force", "verify_fact")
    assert (result.exit_code, result.stdout) == (0, "mine\n")
    assert "warning step 'task' asks for tool_choice 'verify_fact'" in result.stderr
    assert node.requests == []


def settings_of(tmp_path: Path, **server: Any) -> str:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"tiny": server}}))
    return str(path)


async def test_tools_of_mcp_servers_are_listed_and_called(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "agent" / "tools" / "mcp_server.py"
    mcp = settings_of(tmp_path, command=sys.executable, args=[str(script), "stdio"], tools=["add"])
    listed, _ = await ask([], "tools", "--mcp", mcp)
    assert listed.exit_code == 0, listed.output
    assert "tiny__add" in listed.stdout and "Adds two numbers." in listed.stdout
    turns = [calling("tiny__add", {"a": 2, "b": 40}), SO]
    options = ("--tier", "1", "--force", "tiny__add", "--approve", "--mcp", mcp)
    result, node = await ask(turns, "run", "Add.", *options)
    assert result.exit_code == 0, result.output
    assert "42" in str(node.requests[1].messages[-1].content)


async def test_settings_of_servers_that_are_wrong_and_servers_that_fail_are_told(tmp_path: Path) -> None:
    wrong, _ = await ask([], "tools", "--mcp", settings_of(tmp_path, comand="x"))
    assert wrong.exit_code == 2 and "wrong at mcpServers.tiny.comand" in wrong.stderr
    failing, _ = await ask([], "run", "Add.", "--mcp", settings_of(tmp_path, command="/nowhere/at-all"))
    assert failing.exit_code == 1 and "the MCP server tiny could not be used" in failing.stderr
