"""A request as spans: itself, its answer, and that answer's wait, prompt and tokens. `Traces` says where they go.

Without one nothing of this is in the way. A span never fails a request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ringleader.api.contracts import Answerer
from ringleader.api.fault_table import rule_of
from ringleader.api.ids import REQUEST_ID
from ringleader.api.sse import left
from ringleader.values import Answer, ChatRequest, Delta, Finished, ModelId

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
UNROUTED = "other"
CLIENT_LEFT = 499  # no status that was sent; as the metrics have it
Fact = str | int | float


class Span(Protocol):
    """Something that takes time. Each is ended once."""

    def child(self, name: str, facts: Mapping[str, Fact]) -> Span:
        """A part of it, that begins now."""
        ...

    def note(self, facts: Mapping[str, Fact]) -> None:
        """What has become known of it."""
        ...

    def sum(self, name: str, seconds: float, facts: Mapping[str, Fact]) -> None:
        """A part that took so long in all, here and there: drawn from this span's begin on, as if it were one."""
        ...

    def end(self, error: str = "") -> None:
        """It is over; `error` says how it failed, "" that it did not."""
        ...


class Traces(Protocol):
    """Where spans go."""

    def begin(self, name: str, headers: Mapping[str, str], facts: Mapping[str, Fact]) -> Span:
        """A request's span, below the one that its `traceparent` header names (W3C Trace Context)."""
        ...

    async def close(self) -> None:
        """Send what has ended, for a few seconds at most."""
        ...


SPAN: ContextVar[Span] = ContextVar("ringleader_span")  # of the request that the running task serves


def traces_of(environment: Mapping[str, str]) -> Traces | None:
    """What OpenTelemetry's own variables ask for: None where they name no endpoint.

    Raises:
        ExtraMissing: they do, and its packages are not installed.
    """
    if not any(environment.get(name) for name in ENDPOINTS):
        return None
    from ringleader.api.otel import OtelTraces

    return OtelTraces(named="OTEL_SERVICE_NAME" in environment)


def make_tracing(traces: Traces) -> Middleware:
    """The middleware that makes a span of each request. It stands outside of all others."""

    @web.middleware
    async def tracing(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = UNROUTED if resource is None else resource.canonical
        facts: dict[str, Fact] = {"http.request.method": request.method, "http.route": route}
        span = traces.begin(f"{request.method} {route}", request.headers, facts)
        SPAN.set(span)
        status = 0
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            status = status or (CLIENT_LEFT if left(request) else 200)
            span.note({"http.response.status_code": status, "ringleader.request_id": request.get(REQUEST_ID, "")})
            span.end("the client left" if status == CLIENT_LEFT else f"status {status}" if status >= 500 else "")

    return tracing


class Traced:
    """An answerer whose answers are spans of the request that asked for them; otherwise the one that it was made of."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer

    async def answer(self, request: ChatRequest) -> Answer:
        """As `Answerer.answer`."""
        span = SPAN.get().child("answer", {"gen_ai.request.model": request.model})
        queue = span.child("queue", {})
        error = "cancelled"
        try:
            answer = await self._answerer.answer(request)
            error = ""
        except Exception as raised:  # noted, and raised again
            error = rule_of(raised).kind
            raise
        finally:
            queue.end(error)
            if error:
                span.end(error)
        return replace(answer, deltas=_TracedDeltas(answer.deltas, span))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """As `Answerer.token_bytes`."""
        return self._answerer.token_bytes(model, token)


class _TracedDeltas:
    """An answer's deltas: `prompt` until the first, `tokens` until the last."""

    def __init__(self, deltas: AsyncIterator[Delta], span: Span) -> None:
        self._deltas, self._span = deltas, span
        self._part: Span | None = span.child("prompt", {})
        self._begun = False

    def __aiter__(self) -> _TracedDeltas:
        return self

    async def __anext__(self) -> Delta:
        try:
            delta = await self._deltas.__anext__()
        except Exception as error:
            self._end("" if isinstance(error, StopAsyncIteration) else rule_of(error).kind)
            raise
        if self._part is not None and not self._begun:
            self._begun = True
            self._part.end()
            self._part = self._span.child("tokens", {})
        if isinstance(delta, Finished):
            self._span.note(_facts(delta))
            for index, seconds in enumerate(delta.usage.shard_s):
                self._span.sum(f"shard {index}", seconds, {"ringleader.shard": index})
            self._end("")
        return delta

    async def aclose(self) -> None:
        """Close the deltas; those that were not over were cancelled."""
        self._end("cancelled")
        close = getattr(self._deltas, "aclose", None)
        if close is not None:
            await close()

    def _end(self, error: str) -> None:
        if self._part is not None:
            self._part.end(error)
            self._span.end(error)
            self._part = None


def _facts(finished: Finished) -> dict[str, Fact]:
    usage = finished.usage
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.response.finish_reason": finished.reason,
        "ringleader.cached_tokens": usage.cached_tokens,
        "ringleader.forced_tokens": usage.forced_tokens,
        "ringleader.passes": usage.passes,
    }
