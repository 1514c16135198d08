"""`POST /v1/chat/completions`: read, answer, write; whatever happens, the deltas are closed.

A stream's headers go out with its first delta (or its first silence), so that earlier errors are real HTTP errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web

import ringleader
from ringleader.api.body import read_object
from ringleader.api.contracts import Answerer
from ringleader.api.feed import Closers, DeltaFeed
from ringleader.api.ids import new_id
from ringleader.api.openai_answer import Chunks, Completion, Envelope
from ringleader.api.openai_read import ChatAsked, read_chat
from ringleader.api.sse import ClientGone, EventStream
from ringleader.values import Answer, Finished

FINGERPRINT = f"fp_ringleader_{ringleader.__version__}"
WARNINGS_MAX = 8
WARNING_CHARS_MAX = 400  # eight of them stay under the header limits of common clients


class ChatCompletions:
    """The handler. `keep_alive_s` is how long a stream may be silent before a comment is sent."""

    def __init__(
        self, answerer: Answerer, closers: Closers, *, keep_alive_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._answerer = answerer
        self._closers = closers
        self._keep_alive_s = keep_alive_s
        self._clock = clock

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        asked = read_chat(await read_object(request))
        answer = await self._answerer.answer(asked.request)
        async with DeltaFeed(answer.deltas, self._closers) as feed:
            envelope = self._envelope(asked, answer)
            if asked.stream:
                chunks = Chunks(envelope, include_usage=asked.include_usage)
                return await self._stream(EventStream(request, warning_headers(answer.warnings)), feed, chunks)
            return await self._complete(answer, feed, Completion(envelope))

    async def _stream(self, stream: EventStream, feed: DeltaFeed, chunks: Chunks) -> web.StreamResponse:
        delta = await feed.next(self._keep_alive_s)
        try:
            await stream.start()
            while True:
                if delta is None:
                    await stream.keep_alive()
                else:
                    for chunk in chunks.of(delta):
                        await stream.send(chunk)
                    if isinstance(delta, Finished):
                        break
                delta = await feed.next(self._keep_alive_s)
            await stream.finish()
        except ClientGone:
            pass  # leaving the feed cancels the request; there is nobody to tell
        return stream.response

    async def _complete(self, answer: Answer, feed: DeltaFeed, completion: Completion) -> web.Response:
        while True:
            delta = await feed.next()
            if isinstance(delta, Finished):
                return web.json_response(completion.body(delta), headers=warning_headers(answer.warnings))
            if delta is not None:
                completion.add(delta)

    def _envelope(self, asked: ChatAsked, answer: Answer) -> Envelope:
        return Envelope(
            id=new_id("chatcmpl-"),
            created=int(self._clock()),
            model=answer.model,
            fingerprint=FINGERPRINT,
            logprobs=asked.request.top_logprobs is not None,
            spell=lambda token: self._answerer.token_bytes(answer.model, token),
        )


def warning_headers(warnings: tuple[str, ...]) -> dict[str, str]:
    """One `Warning` header (RFC 7234, code 299), safe whatever text of the client's a warning quotes."""
    if not warnings:
        return {}
    return {"Warning": ", ".join(f'299 ringleader "{_quotable(text)}"' for text in warnings[:WARNINGS_MAX])}


def _quotable(text: str) -> str:
    ascii_only = text.encode("ascii", "backslashreplace").decode("ascii")
    printable = "".join(char if char.isprintable() else " " for char in ascii_only)[:WARNING_CHARS_MAX]
    return printable.replace("\\", "\\\\").replace('"', "'")
