"""A benchmark's child process's end of the conversation: orders are JSON lines in, answers are JSON lines out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any


async def orders() -> AsyncIterator[dict[str, Any]]:
    """Lines of standard input, until it closes; read in a thread, which never keeps the process alive."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the input did
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, name="orders", daemon=True).start()
    while line := await lines.get():
        yield json.loads(line)


def say(**line: Any) -> None:
    """One answer."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
