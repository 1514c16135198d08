"""Runs a command in a shell: with a person's approval, in a process group of its own that is killed at the end.

The environment is small, so that keys of the agent's own environment do not reach the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ringleader.agent.contracts import Approval, ToolContract, ToolFault, ToolResult, tool
from ringleader.errors import ContractFault

TIMEOUT_S = 60.0
OUTPUT_BYTES_MAX = 20_000  # half from the beginning, half from the end: errors stand at either
TERMINATION_S = 1.0  # between asking the group to end and ending it
_READ_BYTES = 65_536
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM")


def shell_tool(
    directory: Path,
    *,
    tier: int = 2,
    approval: Approval = "always",
    timeout_s: float = TIMEOUT_S,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
    environment: Mapping[str, str] | None = None,
) -> ToolContract:
    """A tool that runs commands with /bin/sh in `directory`, which is where they begin and no fence around them.

    `environment` is added to the few variables that are passed on.

    Raises:
        ContractFault: `directory` is none.
    """
    if not directory.is_dir():
        raise ContractFault(f"shell needs a directory to run in, and {directory} is none")
    variables = {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(environment or {})

    @tool(
        tier=tier,
        effects=["read", "write", "network"],
        approval=approval,
        timeout_s=timeout_s + 4 * TERMINATION_S,  # its own deadline comes first, and has the output so far
        name="shell",
    )
    async def shell(command: str) -> ToolResult:
        """Runs a shell command and returns its exit code and output. Nothing can be typed into it.

        Args:
            command: the command line, for /bin/sh
        """
        if "\0" in command:
            raise ToolFault("a command has no NUL characters")
        output = _Output(output_bytes_max)
        async with _piped(output) as pipe:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                cwd=directory,
                env=variables,
                start_new_session=True,
            )
            try:
                in_time = await _ended(process, timeout_s)
            finally:
                # Also when cancelled, and also what the command left in the background.
                await asyncio.shield(_end_group(process))
        return _told(process.returncode, output.text(), None if in_time else timeout_s)

    return shell


def _told(exit_code: int | None, output: str, given_up_s: float | None) -> ToolResult:
    value = {"exit_code": exit_code, "output": output, "timed_out": given_up_s is not None}
    said = f"exit code {exit_code}" if given_up_s is None else f"given up after {given_up_s:g} s and ended"
    return ToolResult(f"[{said}]\n{output}", value)


@asynccontextmanager
async def _piped(output: _Output) -> AsyncIterator[int]:
    """The end of a pipe to write to. Afterwards all that was written is in `output`.

    A pipe of our own: with asyncio's the end of a process is not seen before whatever it left behind closes the pipe.
    """
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    reading = asyncio.create_task(output.read_from(reader))
    closed = False
    try:
        yield write_end
        os.close(write_end)
        closed = True
        await asyncio.wait([reading], timeout=TERMINATION_S)  # a child that left its group may hold the pipe open
    finally:
        if not closed:
            os.close(write_end)
        reading.cancel()
        transport.close()


async def _ended(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def _end_group(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        if await _ended(process, TERMINATION_S):
            _signal(process.pid, signal.SIGKILL)
            return
    _signal(process.pid, signal.SIGKILL)
    await _ended(process, TERMINATION_S)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says it the second way
        os.killpg(group, number)


class _Output:
    """Keeps the beginning and the end of a stream, and counts what is between."""

    def __init__(self, bytes_max: int) -> None:
        self._half = bytes_max // 2
        self._first = bytearray()
        self._last = bytearray()
        self._dropped = 0

    async def read_from(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(_READ_BYTES):
            room = self._half - len(self._first)
            self._first += piece[:room]
            self._last += piece[room:]
            if len(self._last) > self._half:
                self._dropped += len(self._last) - self._half
                del self._last[: -self._half]

    def text(self) -> str:
        gap = f"\n[{self._dropped:,} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._first + gap + self._last).decode("utf-8", errors="replace")
