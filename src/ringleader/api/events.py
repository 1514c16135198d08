"""`GET /v1/cluster/events`: what the cluster decided, as server-sent events: the last few, then each as it happens.

The node shows its events as a list that grows at its end and forgets at its beginning; this finds what is new in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from ringleader.api.contracts import ClusterView
from ringleader.api.routes import Query, Route
from ringleader.api.sse import ClientGone, EventStream
from ringleader.errors import BadRequest, Busy

POLL_S = 0.5
LAST_DEFAULT, LAST_MAX = 10, 100
LISTENERS_MAX = 32  # each looks twice a second
FIRST_SIGHT_S = 10.0  # of a node whose events were not seen before (a new master), only so recent ones are news

Event = dict[str, Any]


class Cursor:
    """Where a listener is. Each node's events come in its own order, by its own clock; a new master brings others."""

    def __init__(self, last: int, clock: Callable[[], float] = time.time) -> None:
        self._last = last
        self._clock = clock
        self._begun = False
        self._newest: dict[Any, tuple[float, set[str]]] = {}  # by node: its latest moment, and what it told then

    def fresh(self, events: Sequence[Event]) -> list[Event]:
        """Those that were not there before, and at first the last few."""
        told = [event for event in events if self._is_fresh(event)]
        if not self._begun:
            told = list(events[-self._last :]) if self._last else []
        self._begun = True
        for event in events:
            node, at, text = event.get("node"), event["at"], event["text"]
            newest, texts = self._newest.get(node, (0.0, set()))
            if at >= newest:
                self._newest[node] = (at, {text} if at > newest else texts | {text})
        return told

    def _is_fresh(self, event: Event) -> bool:
        at = event["at"]
        if (known := self._newest.get(event.get("node"))) is None:
            return bool(at >= self._clock() - FIRST_SIGHT_S)
        newest, texts = known
        return bool(at > newest or (at == newest and event["text"] not in texts))


class Events:
    """The handler."""

    def __init__(self, view: ClusterView, *, keep_alive_s: float) -> None:
        self._view = view
        self._keep_alive_s = keep_alive_s
        self._closing = asyncio.Event()
        self._listeners = 0

    async def close(self, app: web.Application) -> None:
        """The server stops: listeners are told, so that it need not wait for them."""
        self._closing.set()

    def routes(self) -> list[Route]:
        """Where it is served."""
        last = Query("last", f"How many of the last events come first: 0 to {LAST_MAX}.", "integer")
        return [
            Route(
                "GET",
                "/v1/cluster/events",
                self.handle,
                "cluster",
                "What the cluster decides, as it does.",
                query=(last,),
            )
        ]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Until the client leaves or the server stops. `?last=N` says how many past events come first."""
        last = _last(request.query.get("last", str(LAST_DEFAULT)))
        if request.method == "HEAD":  # whose answer would end with the cluster
            return web.Response(content_type="text/event-stream")
        if self._listeners >= LISTENERS_MAX:
            raise Busy(f"{LISTENERS_MAX} clients listen to this node's events already; end one, or ask another node.")
        self._listeners += 1
        stream = EventStream(request, {})
        try:
            await stream.start()
            await self._tell(stream, Cursor(last))
            await stream.finish()
        except ClientGone:
            pass
        finally:
            self._listeners -= 1
        return stream.response

    async def _tell(self, stream: EventStream, cursor: Cursor) -> None:
        await stream.keep_alive()  # the client knows at once that it listens
        said_at = time.monotonic()
        while not self._closing.is_set():
            for event in cursor.fresh((await self._view.cluster()).get("events") or ()):
                await stream.send(event)
                said_at = time.monotonic()
            if time.monotonic() - said_at >= self._keep_alive_s:
                await stream.keep_alive()
                said_at = time.monotonic()
            try:
                async with asyncio.timeout(min(POLL_S, self._keep_alive_s)):
                    await self._closing.wait()
            except TimeoutError:
                continue


def _last(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 4 or int(text) > LAST_MAX:
        raise BadRequest(f"last is {text[:20]!r}; write a number from 0 to {LAST_MAX}", param="last")
    return int(text)
