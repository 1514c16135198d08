"""`POST /v1/chat/completions`: read, answer, write. `n` choices are `n` requests with neighbouring seeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from aiohttp import web

import ringleader
from ringleader.api.body import read_object
from ringleader.api.ids import new_id
from ringleader.api.openai_answer import Chunks, Completion, Envelope
from ringleader.api.openai_calls import CallForm
from ringleader.api.openai_read import ChatAsked, read_chat
from ringleader.api.openai_tools import ToolsAsked, in_functions_words, places_of_functions
from ringleader.api.openai_wire import ChatWire
from ringleader.api.routes import Route
from ringleader.api.serving import Serving, warning_headers
from ringleader.api.shapes import ChatBody, ChatChunk
from ringleader.api.sse import EventStream
from ringleader.errors import CallerFault
from ringleader.values import Answer

NamedFinish = Literal["tool_calls", "stop"]

FINGERPRINT = f"fp_ringleader_{ringleader.__version__}"


class ChatCompletions:
    """The handler.

    `named_finish` is the finish reason of an answer that calls a tool which the client named: OpenAI says "stop".
    """

    def __init__(
        self, serving: Serving, *, named_finish: NamedFinish = "tool_calls", clock: Callable[[], float] = time.time
    ) -> None:
        self._serving = serving
        self._named_finish = named_finish
        self._clock = clock

    def routes(self) -> list[Route]:
        """Where it is served."""
        about = "Answer a conversation, with tools or in a form of the client's own, as a whole or as a stream."
        path = "/v1/chat/completions"
        return [Route("POST", path, self.handle, "chat", about, body=ChatWire, answer=ChatBody, event=ChatChunk)]

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
        async with self._serving.accepted(asked.requests()) as (answer, feed):
            if asked.calls.legacy:
                answer = replace(answer, warnings=tuple(map(places_of_functions, answer.warnings)))
            envelope = self._envelope(asked, answer)
            if asked.stream:
                chunks = Chunks(envelope, include_usage=asked.include_usage)
                stream = EventStream(request, warning_headers(answer.warnings))
                return await self._serving.stream(stream, feed, chunks)
            completion = Completion(envelope)
            headers = await self._serving.whole(answer, feed, completion)
            return web.json_response(completion.body(), headers=headers)

    def _envelope(self, asked: ChatAsked, answer: Answer) -> Envelope:
        return Envelope(
            id=new_id("chatcmpl-"),
            created=int(self._clock()),
            model=answer.model,
            fingerprint=FINGERPRINT,
            logprobs=asked.request.top_logprobs is not None,
            spell=lambda token: self._serving.answerer.token_bytes(answer.model, token),
            choices=asked.choices,
            calls=self._call_form(asked.calls),
            service_tier=asked.service_tier,
        )

    def _call_form(self, calls: ToolsAsked) -> CallForm:
        finish = "function_call" if calls.legacy else "tool_calls"
        if calls.named and self._named_finish == "stop":
            finish = "stop"
        return CallForm(calls.custom, calls.legacy, finish, calls.forced)
