"""Answers that go out piece by piece: server-sent events on an aiohttp response, and what every such stream can.

Writing waits for the client (backpressure) under a deadline; a client that is gone raises `ClientGone`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from aiohttp import web

from ringleader.api.error_forms import form_of
from ringleader.api.fault_table import Fault
from ringleader.api.ids import id_headers
from ringleader.values import Json

_spelled = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
WRITE_TIMEOUT_S = 60.0  # a client that takes nothing for so long, with the socket's buffers full, has gone
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # or nginx collects the whole answer before it passes it on
}
Epilogue = Callable[[Fault, str], Iterable[Json]]


class ClientGone(Exception):
    """The client closed the connection, or stopped reading. Nothing is left to tell it."""


class Stream(Protocol):
    """What an answer in pieces is written to; each API has its framing. All but `fail` may raise ClientGone."""

    @property
    def response(self) -> web.StreamResponse:
        """What the handler returns."""
        ...

    @property
    def over(self) -> bool:
        """Whether all has been written. A client that closes then has not left: it has heard enough."""
        ...

    async def start(self) -> None:
        """Send the headers: from here on the status is 200, and errors are events."""
        ...

    async def send(self, event: Json) -> None:
        """One piece."""
        ...

    async def keep_alive(self) -> None:
        """Something without meaning, so that nobody between takes silence for death."""
        ...

    async def comment(self, text: str) -> None:
        """One line, without line breaks of its own, that every reader skips."""
        ...

    async def finish(self) -> None:
        """The end of a stream that went well."""
        ...

    async def fail(self, fault: Fault, request_id: str) -> None:
        """An error as the last thing said. A client that has gone meanwhile misses nothing."""
        ...


class EventStream:
    """One response's events. Registers itself with the request so that a late error becomes its last event.

    `named` writes each event's own "type" as its name. `done` says `[DONE]` at a good end. `epilogue` gives the
    events that tell of an error, where that is not one with the API's error body.
    """

    def __init__(
        self,
        request: web.Request,
        headers: Mapping[str, str],
        *,
        named: bool = False,
        done: bool = True,
        epilogue: Epilogue | None = None,
    ) -> None:
        self._request = request
        self._named = named
        self._done = done
        self._epilogue = epilogue
        self.response = web.StreamResponse(headers={**HEADERS, **headers})
        self.over = False

    async def start(self) -> None:
        """Send the headers: from here on the status is 200, and errors are events."""
        self._request[STREAM] = self
        self.response.headers.update(id_headers(self._request))
        try:
            await self.response.prepare(self._request)
        except ConnectionError as error:
            raise ClientGone from error

    async def send(self, event: Json) -> None:
        """One `data:` event."""
        name = f"event: {event['type']}\n" if self._named else ""
        await self._write(f"{name}data: {_spelled(event)}\n\n")

    async def keep_alive(self) -> None:
        """A comment, so that nobody between takes silence for death."""
        await self.comment("keep-alive")

    async def comment(self, text: str) -> None:
        """One line, without line breaks of its own, that every SSE reader skips."""
        await self._write(f": {text}\n\n")

    async def finish(self) -> None:
        """The end of a stream that went well."""
        if self._done:
            await self._write("data: [DONE]\n\n")
        await self._end()

    async def fail(self, fault: Fault, request_id: str) -> None:
        """An error as the last event; no `[DONE]`. A client that has gone meanwhile misses nothing."""
        body: list[Json] = [form_of(self._request).body(fault, request_id)]
        try:
            for event in body if self._epilogue is None else self._epilogue(fault, request_id):
                await self.send(event)
            await self._end()
        except ClientGone:
            return

    async def _write(self, text: str) -> None:
        transport = self._request.transport
        try:
            if transport is not None and not transport.get_write_buffer_size():
                await self.response.write(text.encode())  # the client has taken all before: this cannot wait
                return
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.response.write(text.encode())
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone from error

    async def _end(self) -> None:
        self.over = True  # clients close when they have read the last event, without waiting for the connection's end
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.response.write_eof()
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone from error


STREAM: web.RequestKey[Stream] = web.RequestKey("stream", Stream)


def left(request: web.Request) -> bool:
    """Whether the client of a request whose handler was cancelled left before it had the whole answer."""
    return STREAM not in request or not request[STREAM].over
