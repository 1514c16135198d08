"""`POST /api/chat` and `POST /api/generate`, as Ollama's clients speak. Streams unless told not to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from ringleader.api.body import read_object
from ringleader.api.contracts import ModelLibrary
from ringleader.api.json_lines import FRAMING, JsonLines, write_lines
from ringleader.api.ollama_answer import Frame, Lines, Times, Whole, nothing_said
from ringleader.api.ollama_faults import in_ollama_words, places_of_ollama
from ringleader.api.ollama_read import STAYS, Asked, read_chat, read_generate
from ringleader.api.ollama_shapes import GeneratedBody, OllamaChatBody, OllamaErrorBody
from ringleader.api.ollama_wire import GenerateWire, OllamaChatWire
from ringleader.api.routes import Handler, Route
from ringleader.api.serving import Serving, warning_headers
from ringleader.errors import BadRequest, CallerFault
from ringleader.values import Answer, ChatRequest, Json, Message, Sampling


class OllamaChat:
    """The two handlers."""

    def __init__(
        self,
        serving: Serving,
        library: ModelLibrary | None,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._serving = serving
        self._library = library
        self._clock_ns = clock_ns
        self._wall_s = wall_s

    def routes(self) -> list[Route]:
        """Where they are served."""
        chat = "Answer a conversation as Ollama does, line by line."
        generate = "Answer a prompt as Ollama does, line by line."
        return [
            _route("/api/chat", self.chat, chat, OllamaChatWire, OllamaChatBody),
            _route("/api/generate", self.generate, generate, GenerateWire, GeneratedBody),
        ]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Serve one conversation."""
        return await self._handle(request, read_chat(await read_object(request)), chat=True)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Serve one prompt."""
        return await self._handle(request, read_generate(await read_object(request)), chat=False)

    async def _handle(self, request: web.Request, asked: Asked, *, chat: bool) -> web.StreamResponse:
        arrived_ns = self._clock_ns()
        try:
            if asked.request is None:
                return await self._load(request, asked, chat)
            noted = await self._noted(asked)
            return await self._serve(request, asked, noted, arrived_ns, chat)
        except CallerFault as fault:
            raise in_ollama_words(fault) from fault

    async def _serve(
        self, request: web.Request, asked: Asked, noted: tuple[str, ...], arrived_ns: int, chat: bool
    ) -> web.StreamResponse:
        assert asked.request is not None
        async with self._serving.accepted([asked.request]) as (answer, feed):
            answer = replace(answer, warnings=(*map(places_of_ollama, answer.warnings), *asked.warnings, *noted))
            frame = self._frame(asked, answer, arrived_ns, chat)
            if asked.stream:
                stream = JsonLines(request, warning_headers(answer.warnings))
                return await self._serving.stream(stream, feed, Lines(frame))
            whole = Whole(frame)
            headers = await self._serving.whole(answer, feed, whole)
            return web.json_response(whole.body(), headers=headers)

    async def _load(self, request: web.Request, asked: Asked, chat: bool) -> web.StreamResponse:
        """Nothing is asked but that the model is there: it is, once it has said a token."""
        if not asked.load:
            raise BadRequest(f"keep_alive: 0 cannot be honoured: {STAYS}.", param="keep_alive")
        arrived_ns = self._clock_ns()
        hello = ChatRequest(asked.model, (Message("user", "Hi"),), Sampling(seed=0), max_tokens=1)
        async with self._serving.accepted([hello]) as (answer, feed):
            await feed.next()
            frame = self._frame(asked, answer, arrived_ns, chat)
        body = nothing_said(frame, "load")
        if not asked.stream:
            return web.json_response(body)
        return await write_lines(request, _once(body))

    async def _noted(self, asked: Asked) -> tuple[str, ...]:
        """Warnings of what the model cannot give. Raises for thinking of a model that has none, as Ollama does."""
        if self._library is None or not (asked.wishes_thinking or asked.context):
            return ()
        details = await self._library.details(asked.model)
        if asked.wishes_thinking and not details.thinks:
            raise BadRequest(f'"{asked.name}" does not support thinking', param="think")
        served = details.facts.context_max
        if asked.context and asked.context > served:
            return (
                f"options.num_ctx {asked.context} is more than the {served} tokens that the node serves (--context)",
            )
        return ()

    def _frame(self, asked: Asked, answer: Answer, arrived_ns: int, chat: bool) -> Frame:
        times = Times(arrived_ns, self._clock_ns(), self._clock_ns, self._wall_s)
        return Frame(
            model=asked.name,
            chat=chat,
            thinking=asked.thinking,
            times=times,
            spell=lambda token: self._serving.answerer.token_bytes(answer.model, token),
        )


def _route(path: str, handler: Handler, about: str, body: Any, answer: Any) -> Route:
    """A stream's lines have the shape of a whole answer; the last may be an error."""
    event = answer | OllamaErrorBody
    return Route("POST", path, handler, "ollama", about, body=body, answer=answer, event=event, framing=FRAMING)


async def _once(line: Json) -> AsyncIterator[Json]:
    yield line
