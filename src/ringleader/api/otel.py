"""Spans for OpenTelemetry, by its own SDK and OTLP over HTTP. Only this file imports them, and only who asks for it.

All but the endpoint is told by OpenTelemetry's own variables: headers, sampling, service name, limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping

import ringleader
from ringleader.api.traces import Fact, Span
from ringleader.errors import ExtraMissing

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ExtraMissing(
        "an OTLP endpoint is set (OTEL_EXPORTER_OTLP_ENDPOINT), but OpenTelemetry's packages are not installed: "
        "pip install 'ringleader[otel]', or unset it"
    ) from missing

CLOSE_S = 3.0  # for what has not been sent when the node ends; a collector that is gone shall not keep it

log = logging.getLogger(__name__)


class OtelSpan:
    """As `Span`."""

    def __init__(self, tracer: trace.Tracer, name: str, within: Context, kind: trace.SpanKind) -> None:
        self._tracer = tracer
        self._began_ns = time.time_ns()
        self._span = tracer.start_span(name, within, kind, start_time=self._began_ns)

    def child(self, name: str, facts: Mapping[str, Fact]) -> Span:
        """As `Span.child`."""
        within = trace.set_span_in_context(self._span, Context())
        made = OtelSpan(self._tracer, name, within, trace.SpanKind.INTERNAL)
        made.note(facts)
        return made

    def note(self, facts: Mapping[str, Fact]) -> None:
        """As `Span.note`."""
        self._span.set_attributes(dict(facts))

    def sum(self, name: str, seconds: float, facts: Mapping[str, Fact]) -> None:
        """As `Span.sum`."""
        within = trace.set_span_in_context(self._span, Context())
        part = self._tracer.start_span(name, within, attributes=dict(facts), start_time=self._began_ns)
        part.end(self._began_ns + round(seconds * 1e9))

    def end(self, error: str = "") -> None:
        """As `Span.end`."""
        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()


class OtelTraces:
    """As `Traces`. Spans are sent in batches from a thread of the SDK's; when its bounded queue is full they are lost.

    `named`: the service has got its name from the environment. `exporter` is OTLP's if not given.
    """

    def __init__(self, *, named: bool = False, exporter: SpanExporter | None = None) -> None:
        facts = {SERVICE_VERSION: ringleader.__version__} | ({} if named else {SERVICE_NAME: "ringleader"})
        self._provider = TracerProvider(resource=Resource.create(facts), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ringleader", ringleader.__version__)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, name: str, headers: Mapping[str, str], facts: Mapping[str, Fact]) -> Span:
        """As `Traces.begin`. A header that is none is ignored, as its specification wants."""
        lower = {key.lower(): value for key, value in headers.items()}
        within = self._propagator.extract(lower, Context())
        span = OtelSpan(self._tracer, name, within, trace.SpanKind.SERVER)
        span.note(facts)
        return span

    async def close(self) -> None:
        """As `Traces.close`."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop has gone: nobody waits any more
                loop.call_soon_threadsafe(sent.set)

        # No thread of the loop's own, whose end the process would wait for.
        threading.Thread(target=shut_down, name="last-spans", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_S):
                await sent.wait()
        except TimeoutError:
            log.warning("the last spans could not be sent within %g s", CLOSE_S)
