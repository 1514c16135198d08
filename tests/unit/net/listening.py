"""A master's control plane on a free loopback port, for tests that play its cluster."""

from __future__ import annotations

import asyncio

from ringleader.cluster.messages import Event
from ringleader.net.control import ControlServer


class Master:
    """A listening master; what it tells its cluster can be waited for."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.server = ControlServer("a", self.told.put_nowait)
        self.address = ""

    async def open(self, port: int = 0) -> None:
        self.address = f"127.0.0.1:{await self.server.start('127.0.0.1', port)}"

    async def next(self) -> Event:
        async with asyncio.timeout(5):
            return await self.told.get()
