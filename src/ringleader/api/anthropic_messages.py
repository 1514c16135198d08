"""`POST /v1/messages` and `POST /v1/messages/count_tokens`, as Anthropic's clients speak."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from ringleader.api.anthropic_answer import PING, Frame, MessageEvents, WholeMessage
from ringleader.api.anthropic_faults import in_anthropic_words, places_of_anthropic
from ringleader.api.anthropic_read import MessagesAsked, read_count, read_messages
from ringleader.api.anthropic_shapes import CountBody, MessageBody, MessageEvent
from ringleader.api.anthropic_wire import CountWire, MessagesWire
from ringleader.api.body import read_object
from ringleader.api.contracts import Tokenizing
from ringleader.api.ids import new_id
from ringleader.api.routes import Route
from ringleader.api.serving import Serving, warning_headers
from ringleader.api.sse import EventStream
from ringleader.errors import CallerFault
from ringleader.values import Answer


class MessageStream(EventStream):
    """Named events; silence is filled with pings."""

    async def keep_alive(self) -> None:
        """An event that every client skips."""
        await self.send(PING)


class Messages:
    """The two handlers."""

    def __init__(self, serving: Serving, tokenizing: Tokenizing | None) -> None:
        self._serving = serving
        self._tokenizing = tokenizing

    def routes(self) -> list[Route]:
        """Where they are served."""
        about = "Answer a conversation as Anthropic's API does, as a whole or as a stream."
        tag, path = "anthropic", "/v1/messages"
        answer, event = MessageBody, MessageEvent
        routes = [Route("POST", path, self.handle, tag, about, body=MessagesWire, answer=answer, event=event)]
        if self._tokenizing is not None:
            counts = "How many tokens the prompt of such a conversation has."
            path = "/v1/messages/count_tokens"
            routes.append(Route("POST", path, self.count, tag, counts, body=CountWire, answer=CountBody))
        return routes

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        asked = read_messages(await read_object(request))
        try:
            return await self._serve(request, asked)
        except CallerFault as fault:
            raise in_anthropic_words(fault, asked.places) from fault

    async def _serve(self, request: web.Request, asked: MessagesAsked) -> web.StreamResponse:
        async with self._serving.accepted([asked.request]) as (answer, feed):
            told = (places_of_anthropic(each, asked.places) for each in answer.warnings)
            answer = replace(answer, warnings=(*asked.warnings, *told))
            frame = _frame(asked, answer)
            if asked.stream:
                stream = MessageStream(request, warning_headers(answer.warnings), named=True, done=False)
                return await self._serving.stream(stream, feed, MessageEvents(frame))
            whole = WholeMessage(frame)
            headers = await self._serving.whole(answer, feed, whole)
            return web.json_response(whole.body(), headers=headers)

    async def count(self, request: web.Request) -> web.Response:
        """Count the tokens of a prompt as the same messages would make it, tools and system with it."""
        assert self._tokenizing is not None
        asked, places = read_count(await read_object(request))
        try:
            ids = await self._tokenizing.prompt_ids(asked)
        except CallerFault as fault:
            raise in_anthropic_words(fault, places) from fault
        return web.json_response({"input_tokens": len(ids)})


def _frame(asked: MessagesAsked, answer: Answer) -> Frame:
    limit = asked.request.max_tokens
    assert limit is not None  # the API demands one
    return Frame(new_id("msg_"), answer.model, answer.prompt_tokens, limit, asked.thinking, asked.edits)
