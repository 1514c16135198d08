"""Shell commands: run where they should, asked for, bounded in time and output, and nothing of them stays."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent.contracts import ToolContract
from ringleader.agent.tools.shell import shell_tool
from ringleader.errors import ContractFault


async def run(tool: ToolContract, command: str) -> dict[str, Any]:
    result = await tool.call({"command": command})
    assert result.failure is None, result.text
    value: dict[str, Any] = result.value
    return value


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z" if Path("/proc/self").exists() else True


def open_handles() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - another process's state: nothing tells of it
            await asyncio.sleep(0.01)


async def until_dead(process: int) -> None:
    await until(lambda: not alive(process))


def test_it_asks_a_person_by_default(tmp_path: Path) -> None:
    tool = shell_tool(tmp_path)
    assert tool.approval == "always" and tool.tier == 2 and tool.effects == {"read", "write", "network"}


async def test_a_command_runs_in_its_directory_and_tells_code_and_output(tmp_path: Path) -> None:
    result = await shell_tool(tmp_path).call({"command": "pwd -P; echo oops >&2; exit 3"})
    here = os.path.realpath(tmp_path)  # noqa: ASYNC240 - nothing waits
    assert result.value == {"exit_code": 3, "output": f"{here}\noops\n", "timed_out": False}
    assert result.text == f"[exit code 3]\n{here}\noops\n"


async def test_keys_of_the_agent_do_not_reach_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    tool = shell_tool(tmp_path, environment={"GIVEN": "yes"})
    assert (await run(tool, "echo [$OPENAI_API_KEY] $GIVEN; cat"))["output"] == "[] yes\n"


async def test_much_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    output = (await run(shell_tool(tmp_path, output_bytes_max=100), "echo first; yes | head -n 100000; echo last"))[
        "output"
    ]
    assert (
        output.startswith("first\n") and output.endswith("last\n") and "bytes left out]" in output and len(output) < 200
    )


async def test_a_command_that_hangs_is_ended_with_all_it_started_and_its_output_is_kept(tmp_path: Path) -> None:
    tool = shell_tool(tmp_path, timeout_s=0.5)
    value = await run(tool, "sleep 600 & echo $!; trap '' TERM; sleep 600")
    assert value["timed_out"] is True
    await until_dead(int(value["output"]))
    assert "given up after 0.5 s" in (await tool.call({"command": "sleep 600"})).text


async def test_what_a_command_leaves_in_the_background_is_ended_at_once(tmp_path: Path) -> None:
    begun = time.monotonic()
    value = await run(shell_tool(tmp_path, timeout_s=60), "sleep 600 & echo $!")
    assert value["timed_out"] is False and time.monotonic() - begun < 30
    await until_dead(int(value["output"]))


async def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    task = asyncio.create_task(shell_tool(tmp_path).call({"command": "echo $$ > pid.new; mv pid.new pid; sleep 600"}))
    await until((tmp_path / "pid").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_dead(int((tmp_path / "pid").read_text()))


async def test_no_pipe_stays_open(tmp_path: Path) -> None:
    tool = shell_tool(tmp_path)
    await run(tool, "true")
    before = open_handles()
    for _ in range(3):
        await run(tool, "echo x")
    await asyncio.sleep(0)
    assert open_handles() <= before


async def test_a_command_with_a_nul_and_a_directory_that_is_none_are_refused(tmp_path: Path) -> None:
    assert (await shell_tool(tmp_path).call({"command": "a\0b"})).failure == "failed"
    with pytest.raises(ContractFault, match="needs a directory"):
        shell_tool(tmp_path / "gone")
