"""Tools of real MCP servers, over stdio and HTTP: used like any tool, and gone with their block."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringleader.agent.contracts import Registry, build_tool_contracts
from ringleader.agent.tools.mcp_servers import McpServer, mcp_tools, with_servers
from ringleader.agent.tools.verify_fact import verify_fact
from ringleader.errors import ContractFault, PeerFault

SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
TINY = McpServer("tiny", command=(sys.executable, SCRIPT, "stdio"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, SCRIPT, "http"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    process.kill()
    process.wait()
    process.stdout.close()


async def until_gone(process: int) -> None:
    async with asyncio.timeout(20):
        while _alive(process):  # noqa: ASYNC110 - another process's end: nothing tells of it
            await asyncio.sleep(0.02)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_tools_of_a_program_are_contracts_like_any_other() -> None:
    async with with_servers(Registry([verify_fact]), [TINY]) as registry:
        schemas, bound, choice = build_tool_contracts(1, ["tiny__add", "verify_fact"], "tiny__add", registry=registry)
        assert choice == {"type": "function", "function": {"name": "tiny__add"}}
        assert schemas[0]["function"]["description"] == "Adds two numbers."
        assert schemas[0]["function"]["parameters"]["required"] == ["a", "b"]
        assert bound[0].approval == "always" and bound[0].effects == {"read", "write", "network"}
        added = await bound[0].call('{"a": 2, "b": 40}')
        assert added.value == {"total": 42} and "42" in added.text and added.failure is None
        assert (await registry["tiny__greet"].call({"name": "Ann"})).text == "hello Ann"
        assert (await registry["tiny__odd_name_with_spaces"].call("")).text == "odd"
        assert (await registry["tiny__picture"].call("")).text == "[image image/png: not shown]"


async def test_wrong_arguments_never_reach_the_server_and_its_errors_reach_the_model() -> None:
    async with mcp_tools(TINY) as tools:
        by_name = {tool.name: tool for tool in tools}
        wrong = await by_name["tiny__add"].call({"a": "x"})
        assert wrong.failure == "bad_arguments" and "a: 'x' is not of type 'integer'" in wrong.text
        failed = await by_name["tiny__fail"].call("")
        assert failed.failure == "failed" and "on purpose" in failed.text


async def test_calls_run_beside_each_other_and_late_ones_are_given_up() -> None:
    impatient = McpServer("tiny", command=TINY.command, timeout_s=0.5)
    async with mcp_tools(impatient) as tools:
        by_name = {tool.name: tool for tool in tools}
        late, soon = await asyncio.gather(
            by_name["tiny__wait"].call({"seconds": 600}), by_name["tiny__greet"].call({"name": "Bob"})
        )
        assert late.failure == "timeout" and soon.text == "hello Bob"
        assert (await by_name["tiny__greet"].call({"name": "Cy"})).text == "hello Cy"


async def test_a_program_gets_its_own_environment_only_and_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with mcp_tools(McpServer("tiny", command=TINY.command, environment={"GIVEN": "yes"})) as tools:
        tell = next(tool for tool in tools if tool.name == "tiny__environment")
        assert (await tell.call({"name": "OPENAI_API_KEY"})).text.startswith("unset ")
        given, process = (await tell.call({"name": "GIVEN"})).text.split()
        assert given == "yes"
    await until_gone(int(process))
    after = await tell.call({"name": "GIVEN"})
    assert after.failure == "failed" and "the MCP server tiny is gone" in after.text


async def test_a_program_that_dies_in_a_call_is_told_with_what_it_said_and_the_agent_goes_on() -> None:
    async with mcp_tools(TINY) as tools:
        by_name = {tool.name: tool for tool in tools}
        result = await by_name["tiny__die"].call("")
        assert result.failure == "failed"
        assert "the MCP server tiny is gone; it said last:" in result.text and "dying now" in result.text
        assert (await by_name["tiny__greet"].call({"name": "Di"})).failure == "failed"


async def test_an_error_in_the_block_ends_the_program_and_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="of the block"):
        async with mcp_tools(TINY) as tools:
            tell = next(tool for tool in tools if tool.name == "tiny__environment")
            process = (await tell.call({"name": "GIVEN"})).text.split()[1]
            raise KeyError("of the block")
    await until_gone(int(process))


async def test_cancelling_the_block_ends_the_program() -> None:
    pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with mcp_tools(TINY) as tools:
            tell = next(tool for tool in tools if tool.name == "tiny__environment")
            pid.set_result(int((await tell.call({"name": "GIVEN"})).text.split()[1]))
            await asyncio.sleep(600)

    task = asyncio.create_task(hold())
    process = await pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_gone(process)


async def test_tools_over_http_with_a_key(url: str) -> None:
    server = McpServer("web", url=url, headers={"Authorization": "Bearer k"}, only=("greet", "add"), approval="never")
    assert "Bearer" not in repr(server)
    async with mcp_tools(server) as tools:
        assert sorted(tool.name for tool in tools) == ["web__add", "web__greet"]
        assert {tool.approval for tool in tools} == {"never"}
        greet = next(tool for tool in tools if tool.name == "web__greet")
        assert (await greet.call({"name": "Eve"})).text == "hello Eve"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (McpServer("gone", command=("/nowhere/at-all",)), "the MCP server gone could not be used"),
        (McpServer("dead", command=("/bin/sh", "-c", "echo no config >&2; exit 1")), "no config"),
        (McpServer("deaf", url="http://127.0.0.1:9/mcp"), "the MCP server deaf could not be used"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told(server: McpServer, why: str) -> None:
    with pytest.raises(PeerFault, match=why):
        async with mcp_tools(server):
            pass


async def test_a_server_without_its_key_is_told(url: str) -> None:
    with pytest.raises(PeerFault, match="the MCP server web could not be used"):
        async with mcp_tools(McpServer("web", url=url)):
            pass


async def test_a_server_that_never_answers_is_given_up_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringleader.agent.tools.mcp_servers.CONNECT_S", 2.0)
    mute = McpServer("mute", command=("/bin/sh", "-c", "echo process $$ >&2; exec sleep 600"))
    with pytest.raises(PeerFault, match="mute did not answer within 2 s; it said last: process") as told:
        async with mcp_tools(mute):
            pass
    await until_gone(int(str(told.value).split()[-1]))


async def test_tools_that_a_server_does_not_have_are_told() -> None:
    with pytest.raises(ContractFault, match="has no tool subtract; it has: add"):
        async with mcp_tools(McpServer("tiny", command=TINY.command, only=("add", "subtract"))):
            pass


def test_settings_that_contradict_themselves_are_refused() -> None:
    for settings, why in [
        ({"name": "a b", "url": "http://x"}, "cannot be called"),
        ({"name": "a"}, "needs a command or a url"),
        ({"name": "a", "command": ("x",), "url": "http://x"}, "and not both"),
        ({"name": "a", "url": "ftp://x"}, "must begin with http"),
    ]:
        with pytest.raises(ContractFault, match=why):
            McpServer(**settings)  # type: ignore[arg-type]  # of many types
