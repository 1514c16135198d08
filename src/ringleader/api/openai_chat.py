"""`POST /v1/chat/completions`: read, answer, write; whatever happens, the deltas are closed.

A stream's headers go out with its first delta (or its first silence), so that earlier errors are real HTTP errors.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Literal

from aiohttp import web

import ringleader
from ringleader.api.body import read_object
from ringleader.api.contracts import Answerer
from ringleader.api.feed import Closers, DeltaFeed
from ringleader.api.ids import new_id
from ringleader.api.openai_answer import Chunks, Completion, Envelope
from ringleader.api.openai_calls import CallForm
from ringleader.api.openai_read import ChatAsked, read_chat
from ringleader.api.openai_tools import ToolsAsked, in_functions_words, places_of_functions
from ringleader.api.sse import ClientGone, EventStream
from ringleader.errors import CallerFault
from ringleader.values import Answer, ChatRequest, Delta, Finished

NamedFinish = Literal["tool_calls", "stop"]

FINGERPRINT = f"fp_ringleader_{ringleader.__version__}"
WARNINGS_MAX = 8
WARNING_CHARS_MAX = 400  # eight of them stay under the header limits of common clients


class ChatCompletions:
    """The handler. `keep_alive_s` is how long a stream may be silent before a comment is sent.

    `named_finish` is the finish reason of an answer that calls a tool which the client named: OpenAI says "stop".
    """

    def __init__(
        self,
        answerer: Answerer,
        closers: Closers,
        *,
        keep_alive_s: float,
        named_finish: NamedFinish = "tool_calls",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._answerer = answerer
        self._closers = closers
        self._keep_alive_s = keep_alive_s
        self._named_finish = named_finish
        self._clock = clock

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        asked = read_chat(await read_object(request))
        try:
            return await self._serve(request, asked)
        except CallerFault as fault:
            if asked.calls.legacy:
                raise in_functions_words(fault) from fault
            raise

    async def _serve(self, request: web.Request, asked: ChatAsked) -> web.StreamResponse:
        """The first choice is accepted before the others, so that what is wrong is said once."""
        first, *others = asked.requests()
        answer = await self._answerer.answer(first)
        if asked.calls.legacy:
            answer = replace(answer, warnings=tuple(map(places_of_functions, answer.warnings)))
        choices = [answer.deltas, *map(self._further, others)]
        async with DeltaFeed(choices, self._closers) as feed:
            envelope = self._envelope(asked, answer)
            if asked.stream:
                chunks = Chunks(envelope, include_usage=asked.include_usage)
                return await self._stream(EventStream(request, warning_headers(answer.warnings)), feed, chunks)
            return await self._complete(answer, feed, Completion(envelope))

    async def _further(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Another choice's deltas. Its request goes out when they are first asked for."""
        answer = await self._answerer.answer(request)
        try:
            async for delta in answer.deltas:
                yield delta
        finally:
            close = getattr(answer.deltas, "aclose", None)
            if close is not None:
                await close()

    async def _stream(self, stream: EventStream, feed: DeltaFeed, chunks: Chunks) -> web.StreamResponse:
        news = await feed.next(self._keep_alive_s)
        try:
            await stream.start()
            while True:
                if news is None:
                    await stream.keep_alive()
                else:
                    await self._send(stream, chunks, *news)
                    if chunks.complete:
                        break
                news = await feed.next(self._keep_alive_s)
            await stream.finish()
        except ClientGone:
            pass  # leaving the feed cancels the request; there is nobody to tell
        return stream.response

    async def _send(self, stream: EventStream, chunks: Chunks, choice: int, delta: Delta) -> None:
        """A warning that only the answer's end could tell comes too late for a header: it is a comment."""
        for warning in delta.warnings[:WARNINGS_MAX] if isinstance(delta, Finished) else ():
            await stream.comment(f"warning: {_plain(warning)}")
        for chunk in chunks.of(choice, delta):
            await stream.send(chunk)

    async def _complete(self, answer: Answer, feed: DeltaFeed, completion: Completion) -> web.Response:
        warnings = answer.warnings
        while not completion.complete:
            news = await feed.next()
            if news is not None:
                completion.add(*news)
                if isinstance(news[1], Finished):
                    warnings += news[1].warnings
        return web.json_response(completion.body(), headers=warning_headers(tuple(dict.fromkeys(warnings))))

    def _envelope(self, asked: ChatAsked, answer: Answer) -> Envelope:
        return Envelope(
            id=new_id("chatcmpl-"),
            created=int(self._clock()),
            model=answer.model,
            fingerprint=FINGERPRINT,
            logprobs=asked.request.top_logprobs is not None,
            spell=lambda token: self._answerer.token_bytes(answer.model, token),
            choices=asked.choices,
            calls=self._call_form(asked.calls),
        )

    def _call_form(self, calls: ToolsAsked) -> CallForm:
        finish = "function_call" if calls.legacy else "tool_calls"
        if calls.named and self._named_finish == "stop":
            finish = "stop"
        return CallForm(calls.custom, calls.legacy, finish, calls.forced)


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
