"""Child processes of a benchmark that speak JSON lines: started with a shard's environment, ended with the block."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ringleader.errors import PeerFault
from ringleader.node.supervisor import shard_environment

ANSWER_DEADLINE_S = 300.0
STOP_DEADLINE_S = 5.0
LINE_BYTES_MAX = 1 << 20
LAST_BYTES = 400  # of a dead child's log that go into the error


class Child:
    """One child. `ask` sends an order and waits for the answer, `hear` waits for what it says unasked."""

    def __init__(self, module: str, process: Process) -> None:
        self._module = module
        self._process = process

    async def ask(self, **order: Any) -> dict[str, Any]:
        """Raises PeerFault when the child dies or stays silent."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        """The child's next line. Raises PeerFault when it dies or stays silent."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(ANSWER_DEADLINE_S):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise PeerFault(f"{self._module} said nothing for {ANSWER_DEADLINE_S:.0f} s") from error
        if not line:
            raise PeerFault(f"{self._module} ended: {await self._last_words()}")
        heard = json.loads(line)
        assert isinstance(heard, dict)
        return heard

    async def _last_words(self) -> str:
        assert self._process.stderr is not None
        text = (await self._process.stderr.read()).decode(errors="replace")
        return text[-LAST_BYTES:].strip() or f"exit code {await self._process.wait()}"

    async def end(self) -> None:
        """Close its standard input, which ends it; kill it when it does not go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def open_child(module: str, *arguments: str) -> AsyncIterator[Child]:
    """`python -m MODULE ARGUMENTS` for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=shard_environment(),
        limit=LINE_BYTES_MAX,
    )
    child = Child(module, process)
    try:
        yield child
    finally:
        await child.end()
