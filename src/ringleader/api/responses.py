"""`/v1/responses`: answers to items, which may follow a response that this node has stored."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from ringleader.api.auth import CALLER
from ringleader.api.body import read_object
from ringleader.api.contracts import ResponseStore, StoredResponse
from ringleader.api.feed import DeltaFeed
from ringleader.api.ids import new_id
from ringleader.api.responses_answer import ResponseEvents
from ringleader.api.responses_body import ResponseFrame
from ringleader.api.responses_fit import shorter
from ringleader.api.responses_history import Placed
from ringleader.api.responses_read import ResponseAsked, read_response, replayed
from ringleader.api.responses_tools import in_responses_words, places_of_responses
from ringleader.api.responses_wire import ResponsesWire
from ringleader.api.routes import Query, Route
from ringleader.api.serving import Serving, warning_headers
from ringleader.api.shapes import DeletedBody, ItemPage, ResponseBody, ResponseEvent
from ringleader.api.sse import EventStream
from ringleader.errors import BadRequest, CallerFault, ContextTooLong, NotFound, RingleaderError
from ringleader.values import Answer, ChatRequest, Json, shown

TAG = "responses"
LIST_MAX = 100
LIST_DEFAULT = 20
NOT_KEPT = "this node keeps no responses (--keep-responses); send the whole input"

# A cluster keeps no copies: the store is the node's that answered.
WHERE = "A response is kept by the node that made it, until newer ones need the room: ask that node."

log = logging.getLogger(__name__)


class Responses:
    """The handlers. Without a `store` nothing is kept, and a request that wants it is told so."""

    def __init__(self, serving: Serving, store: ResponseStore | None, clock: Callable[[], float] = time.time) -> None:
        self._serving = serving
        self._store = store
        self._clock = clock

    def routes(self) -> list[Route]:
        """Where they are served."""
        one = "/v1/responses/{id}"
        about = "Answer a conversation of items, with tools or in a form, as a whole or as a stream of events."
        page = (
            Query("limit", f"How many items at most: 1 to {LIST_MAX}, {LIST_DEFAULT} by default.", "integer"),
            Query("order", "asc or desc; desc by default."),
            Query("after", "The id of the item after which the page begins."),
        )
        body, answer, event = ResponsesWire, ResponseBody, ResponseEvent
        listed = "What a response answered."
        gone = (404,)
        return [
            Route("POST", "/v1/responses", self.create, TAG, about, body=body, answer=answer, event=event),
            Route("GET", one, self.retrieve, TAG, "A stored response.", answer=ResponseBody, fails=gone),
            Route("DELETE", one, self.delete, TAG, "Forget a stored response.", answer=DeletedBody, fails=gone),
            Route("POST", f"{one}/cancel", self.cancel, TAG, "Refused: answers end with their client.", fails=gone),
            Route("GET", f"{one}/input_items", self.input_items, TAG, listed, answer=ItemPage, query=page, fails=gone),
        ]

    # ------------------------------------------------------------ create

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        asked = read_response(await read_object(request))
        caller = _caller(request)
        before = await self._before(asked, caller)
        found = await self._found(asked, caller)
        try:
            async with self._accepted(asked, before, found) as (answer, feed):
                told = (places_of_responses(each, asked.tools.places) for each in answer.warnings)
                answer = replace(answer, warnings=(*asked.warnings, *told))
                return await self._answer(request, asked, answer, feed)
        except CallerFault as fault:
            raise in_responses_words(fault, asked.tools.places) from fault

    @asynccontextmanager
    async def _accepted(
        self, asked: ResponseAsked, before: list[Placed], found: dict[str, Any]
    ) -> AsyncIterator[tuple[Answer, DeltaFeed]]:
        """The answer; with truncation "auto", to as much of the conversation as fits the context."""
        wanted: ChatRequest | None = asked.request(before, found)
        while wanted is not None:
            try:
                async with self._serving.accepted([wanted]) as accepted:
                    wanted = None
                    yield accepted
            except ContextTooLong:
                if wanted is None or asked.wire.truncation != "auto" or (wanted := shorter(wanted)) is None:
                    raise

    async def _answer(
        self, request: web.Request, asked: ResponseAsked, answer: Answer, feed: DeltaFeed
    ) -> web.StreamResponse:
        spell = partial(self._serving.answerer.token_bytes, answer.model)
        frame = ResponseFrame(
            new_id("resp_"),
            int(self._clock()),
            answer.model,
            asked,
            spell,
            stored=asked.stored and self._store is not None,
        )
        events = ResponseEvents(frame, self._clock)

        async def keep() -> None:
            await self._keep(asked, events.final, _caller(request))

        if asked.wire.stream is True:
            headers = warning_headers(answer.warnings)
            stream = EventStream(request, headers, named=True, done=False, epilogue=events.failed)
            return await self._serving.stream(stream, feed, events, before_end=keep)
        told = await self._serving.whole(answer, feed, events)
        assert events.final is not None
        await keep()
        return web.json_response(events.final, headers=told)

    async def _keep(self, asked: ResponseAsked, body: dict[str, Json] | None, caller: str) -> None:
        """Store a response that is over. One that cannot be stored was answered all the same."""
        if self._store is None or not asked.stored or body is None:
            return
        kept = StoredResponse(
            body["id"], asked.wire.previous_response_id, body["created_at"], asked.raw_items, body, caller
        )
        try:
            await self._store.put(kept)
        except RingleaderError as error:
            log.error("response %s is not stored: %s", kept.id, error)

    async def _before(self, asked: ResponseAsked, caller: str) -> list[Placed]:
        """The items of the responses that this one follows."""
        previous = asked.wire.previous_response_id
        if previous is None:
            return []
        if self._store is None:
            message = f"'previous_response_id' is not supported: {NOT_KEPT}."
            raise BadRequest(message, param="previous_response_id", code="unsupported_parameter")
        chain = await self._store.chain(previous)
        if chain and not chain[-1].shown_to(caller):
            chain = []
        if not chain or chain[0].previous is not None:
            missing = chain[0].previous if chain else previous
            message = f"Previous response with id {shown(missing)} not found. {WHERE} Or send the whole input."
            raise BadRequest(message, param="previous_response_id", code="previous_response_not_found")
        stored = [item for each in chain for item in (*each.input, *each.body["output"])]
        return replayed(stored, "previous_response_id")

    async def _found(self, asked: ResponseAsked, caller: str) -> dict[str, Any]:
        if self._store is None or not asked.references:
            return {}
        return await self._store.items(tuple(asked.references), caller)

    # ------------------------------------------------------------ what is stored

    async def retrieve(self, request: web.Request) -> web.Response:
        """The response as it was answered."""
        if request.query.get("stream", "false") not in ("false", "0", ""):
            message = "'stream' is not supported here: a stored response is given whole."
            raise BadRequest(message, param="stream", code="unsupported_parameter")
        return web.json_response((await self._stored(request)).body)

    async def delete(self, request: web.Request) -> web.Response:
        """Forget it; those that follow it can no longer be followed."""
        stored = await self._stored(request)
        assert self._store is not None
        await self._store.delete(stored.id)
        return web.json_response({"id": stored.id, "object": "response", "deleted": True})

    async def cancel(self, request: web.Request) -> web.Response:
        """Refused: a response is over, or its client is there to close its connection."""
        stored = await self._stored(request)
        message = f"Cannot cancel {stored.id}: only background responses can be, and there are none. "
        raise BadRequest(message + "To stop an answer, close its connection.", code="not_cancellable")

    async def input_items(self, request: web.Request) -> web.Response:
        """A page of the response's own input."""
        stored = await self._stored(request)
        items = list(stored.input)
        order = request.query.get("order", "desc")
        if order not in ("asc", "desc"):
            message = f"Invalid value: {shown(order)} for 'order'. Supported values are: 'asc', 'desc'."
            raise BadRequest(message, param="order")
        if order == "desc":
            items.reverse()
        if (after := request.query.get("after")) is not None:
            items = _after(items, after)
        limit = _limit(request.query.get("limit", str(LIST_DEFAULT)))
        page = items[:limit]
        ends = (page[0]["id"], page[-1]["id"]) if page else (None, None)
        more = len(items) > limit
        return web.json_response(
            {"object": "list", "data": page, "first_id": ends[0], "last_id": ends[1], "has_more": more}
        )

    async def _stored(self, request: web.Request) -> StoredResponse:
        response_id = request.match_info["id"]
        found = None if self._store is None else await self._store.get(response_id)
        if found is None or not found.shown_to(_caller(request)):
            raise _not_found(response_id)
        return found


def _caller(request: web.Request) -> str:
    """Whose key came with the request; "" where none is asked for."""
    caller = request.get(CALLER)
    return caller.name if caller is not None else ""


def _not_found(response_id: str) -> NotFound:
    return NotFound(f"Response with id {shown(response_id)} not found. {WHERE}", code="response_not_found")


def _after(items: list[dict[str, Json]], after: str) -> list[dict[str, Json]]:
    for index, item in enumerate(items):
        if item["id"] == after:
            return items[index + 1 :]
    raise BadRequest(f"Invalid 'after': the response has no item {shown(after)}.", param="after")


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 4 or not 1 <= int(text) <= LIST_MAX:
        raise BadRequest(f"Invalid 'limit': {shown(text)}. Write a number from 1 to {LIST_MAX}.", param="limit")
    return int(text)
