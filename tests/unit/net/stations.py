"""Nodes as far as their control ports go: a mesh and a relay on loopback; what they hear can be waited for."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

from ringleader.net.control import ControlPort
from ringleader.net.mesh import Ears, Mesh
from ringleader.net.relay import RelayService
from ringleader.trust.credentials import Credentials
from ringleader.trust.refusals import Refusals
from ringleader.values import NodeId

HEARD_WITHIN_S = 10.0  # two busy cores, and a TLS handshake


class Station:
    """One node's control port. `credentials` None: in the clear, under the name `name`."""

    def __init__(self, name: str, credentials: Credentials | None = None) -> None:
        self.credentials = credentials
        self.node = NodeId(name) if credentials is None else credentials.node
        self.words: defaultdict[NodeId, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self.ups: asyncio.Queue[NodeId] = asyncio.Queue()
        self.downs: asyncio.Queue[tuple[NodeId, str]] = asyncio.Queue()
        self.log: list[str] = []
        self.refusals = Refusals(say=self.log.append)
        self.mesh = Mesh(self.node, credentials, self._ears(), self.refusals)
        self.port = ControlPort(self.mesh, RelayService(self.answer, self.ask), credentials, self.refusals)
        self.address = ""
        self.hung_up = asyncio.Event()

    def _ears(self) -> Ears:
        return Ears(
            lambda node, word: self.words[node].put_nowait(word),
            self.ups.put_nowait,
            lambda node, why: self.downs.put_nowait((node, why)),
        )

    async def open(self, port: int = 0) -> Station:
        self.address = f"127.0.0.1:{await self.port.start('127.0.0.1', port)}"
        return self

    async def close(self) -> None:
        await self.mesh.close()
        await self.port.close()

    # ------------------------------------------------------------ what it hears

    async def word(self, of: Station) -> bytes:
        async with asyncio.timeout(HEARD_WITHIN_S):
            return await self.words[of.node].get()

    async def up(self) -> NodeId:
        async with asyncio.timeout(HEARD_WITHIN_S):
            return await self.ups.get()

    async def down(self) -> tuple[NodeId, str]:
        async with asyncio.timeout(HEARD_WITHIN_S):
            return await self.downs.get()

    async def meet(self, other: Station, *, by_name: bool = True) -> None:
        """Dial it and wait until the line stands."""
        self.mesh.dial([other.address], other.node if by_name else None)
        assert await self.up() == other.node

    # ------------------------------------------------------------ what it answers

    async def answer(self, asked: bytes) -> AsyncGenerator[bytes, None]:
        """`asked` again and again, without end if it is "for ever"; notes when the asker leaves."""
        try:
            yield asked
            while asked == b"for ever":
                await asyncio.sleep(0.01)
                yield asked
        finally:
            self.hung_up.set()

    async def ask(self, question: bytes) -> bytes:
        if question == b"never":
            await asyncio.Event().wait()
        return question
