"""Server-sent events on an aiohttp response: `data:` lines, keep-alive comments, `[DONE]`.

Writing waits for the client (backpressure) under a deadline; a client that is gone raises `ClientGone`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from aiohttp import web

from ringleader.values import Json

WRITE_TIMEOUT_S = 60.0  # a client that takes nothing for so long, with the socket's buffers full, has gone
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # or nginx collects the whole answer before it passes it on
}


class ClientGone(Exception):
    """The client closed the connection, or stopped reading. Nothing is left to tell it."""


class EventStream:
    """One response's events. Registers itself with the request so that a late error becomes its last event."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self.response = web.StreamResponse(headers={**HEADERS, **headers})

    async def start(self) -> None:
        """Send the headers: from here on the status is 200, and errors are events."""
        self._request[STREAM] = self
        try:
            await self.response.prepare(self._request)
        except ConnectionError as error:
            raise ClientGone from error

    async def send(self, event: Json) -> None:
        """One `data:` event."""
        await self._write(f"data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n")

    async def keep_alive(self) -> None:
        """A comment, so that nobody between takes silence for death."""
        await self.comment("keep-alive")

    async def comment(self, text: str) -> None:
        """One line, without line breaks of its own, that every SSE reader skips."""
        await self._write(f": {text}\n\n")

    async def finish(self) -> None:
        """The end of a stream that went well."""
        await self._write("data: [DONE]\n\n")
        await self._end()

    async def fail(self, body: Json) -> None:
        """An error as the last event; no `[DONE]`. A client that has gone meanwhile misses nothing."""
        try:
            await self.send(body)
            await self._end()
        except ClientGone:
            return

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.response.write(text.encode())
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone from error

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.response.write_eof()
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone from error


STREAM = web.RequestKey("stream", EventStream)
