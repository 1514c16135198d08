"""What a port scan sends, from a process inside a host: `python -m tests.netns.scan PORT...`; says "done" at the end.

Each port gets every mess of tests/security, several at a time, while visitors that send a byte now and then stay.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from tests.security.garbage import messes, slow_visitors
from tests.security.ports import knock

AT_ONCE = 8
SLOW_VISITORS = 12


async def scan(ports: list[int]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def throw(port: int, mess: bytes) -> None:
        async with gate:
            await knock(port, mess)

    async with AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(slow_visitors(port, SLOW_VISITORS))
        await asyncio.gather(*(throw(port, mess) for mess in messes() for port in ports))


asyncio.run(scan([int(word) for word in sys.argv[1:]]))
print("done", flush=True)
