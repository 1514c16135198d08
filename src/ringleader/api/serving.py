"""The way of every answer, whatever its API: accepted, then read to its end as a stream or as a whole.

A stream's headers go out with its first delta (or its first silence), so that earlier errors are real HTTP errors.
However it ends, the deltas are closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from ringleader.api.contracts import Answerer
from ringleader.api.feed import Closers, DeltaFeed
from ringleader.api.sse import ClientGone, Stream
from ringleader.values import Answer, ChatRequest, Delta, Finished, Json

WARNINGS_MAX = 8
WARNING_CHARS_MAX = 400  # eight of them stay under the header limits of common clients


class Writer(Protocol):
    """Deltas to one API's events, for a stream."""

    @property
    def complete(self) -> bool:
        """Every choice has finished."""
        ...

    def begin(self) -> Iterable[Json]:
        """The events before the first delta."""
        ...

    def of(self, index: int, delta: Delta) -> Iterable[Json]:
        """The events that `delta` of choice `index` makes; perhaps none."""
        ...


class Collector(Protocol):
    """Deltas to one API's whole answer."""

    @property
    def complete(self) -> bool:
        """Every choice has finished."""
        ...

    def add(self, index: int, delta: Delta) -> None:
        """Take in one delta of choice `index`."""
        ...


class Serving:
    """What all doors share. `keep_alive_s` is how long a stream may be silent before something is said."""

    def __init__(self, answerer: Answerer, closers: Closers, *, keep_alive_s: float) -> None:
        self.answerer = answerer
        self._closers = closers
        self._keep_alive_s = keep_alive_s

    @asynccontextmanager
    async def accepted(self, requests: Sequence[ChatRequest]) -> AsyncIterator[tuple[Answer, DeltaFeed]]:
        """The answer to the first of `requests`, and the deltas of all: each is a choice of its own.

        The first is accepted before the others, so that what is wrong is said once.
        """
        first, *others = requests
        answer = await self.answerer.answer(first)
        async with DeltaFeed([answer.deltas, *map(self._further, others)], self._closers) as feed:
            yield answer, feed

    async def _further(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Another choice's deltas. Its request goes out when they are first asked for."""
        answer = await self.answerer.answer(request)
        try:
            async for delta in answer.deltas:
                yield delta
        finally:
            close = getattr(answer.deltas, "aclose", None)
            if close is not None:
                await close()

    async def stream(
        self, stream: Stream, feed: DeltaFeed, writer: Writer, before_end: Callable[[], Awaitable[None]] | None = None
    ) -> web.StreamResponse:
        """Write the answer out as it comes. `before_end` is awaited when it is complete, before the client knows."""
        news = await feed.next(self._keep_alive_s)
        try:
            await stream.start()
            for event in writer.begin():
                await stream.send(event)
            while True:
                if news is None:
                    await stream.keep_alive()
                else:
                    await self._send(stream, writer, before_end, *news)
                    if writer.complete:
                        break
                news = await feed.next(self._keep_alive_s)
            await stream.finish()
        except ClientGone:
            pass  # leaving the feed cancels the request; there is nobody to tell
        return stream.response

    async def _send(
        self,
        stream: Stream,
        writer: Writer,
        before_end: Callable[[], Awaitable[None]] | None,
        choice: int,
        delta: Delta,
    ) -> None:
        """A warning that only the answer's end could tell comes too late for a header: it is a comment."""
        for warning in delta.warnings[:WARNINGS_MAX] if isinstance(delta, Finished) else ():
            await stream.comment(f"warning: {_plain(warning)}")
        events = list(writer.of(choice, delta))
        if before_end is not None and writer.complete:
            await before_end()
        for event in events:
            await stream.send(event)

    async def whole(self, answer: Answer, feed: DeltaFeed, collector: Collector) -> Mapping[str, str]:
        """Feed the collector to the answer's end; gives the headers that tell of warnings."""
        warnings = answer.warnings
        while not collector.complete:
            news = await feed.next()
            if news is not None:
                collector.add(*news)
                if isinstance(news[1], Finished):
                    warnings += news[1].warnings
        return warning_headers(tuple(dict.fromkeys(warnings)))


def warning_headers(warnings: tuple[str, ...]) -> dict[str, str]:
    """One `Warning` header (RFC 7234, code 299), safe whatever text of the client's a warning quotes."""
    if not warnings:
        return {}
    return {"Warning": ", ".join(f'299 ringleader "{_quotable(text)}"' for text in warnings[:WARNINGS_MAX])}


def _quotable(text: str) -> str:
    return _plain(text).replace("\\", "\\\\").replace('"', "'")


def _plain(text: str) -> str:
    """One line of printable ASCII, cut to a length that headers bear."""
    ascii_only = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(char if char.isprintable() else " " for char in ascii_only)[:WARNING_CHARS_MAX]
