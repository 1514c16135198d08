"""Spans as OpenTelemetry's collectors get them: over OTLP, below the caller's own."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ringleader.api import otel
from ringleader.api.otel import OtelTraces
from ringleader.api.traces import traces_of
from ringleader.errors import ExtraMissing
from tests.api.scripted import ScriptedNode, body
from tests.unit.api.test_app import CHAT, http

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def collector(said: list[Any]) -> tuple[web.AppRunner, str]:
    """Something that takes OTLP over HTTP, and its address."""

    async def take(request: web.Request) -> web.Response:
        said.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_a_collector_gets_the_spans_of_a_request_below_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    runner, url = await collector(said)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    traces = traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    async with http(ScriptedNode(), traces=traces) as session:
        async with session.post(CHAT, json=body(), headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}) as response:
            assert response.status == 200
    await runner.cleanup()
    resource = said[0].resource_spans[0]
    assert ("service.name", "ringleader") in [
        (each.key, each.value.string_value) for each in resource.resource.attributes
    ]
    spans = {span.name: span for span in resource.scope_spans[0].spans}
    assert set(spans) == {f"POST {CHAT}", "answer", "queue", "prompt", "tokens"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    above = {name: span.parent_span_id for name, span in spans.items()}
    top, answer = spans[f"POST {CHAT}"], spans["answer"]
    assert (above[top.name].hex(), above["answer"]) == (PARENT, top.span_id)
    assert above["queue"] == above["prompt"] == above["tokens"] == answer.span_id
    assert spans["queue"].end_time_unix_nano <= spans["tokens"].start_time_unix_nano


async def test_a_parent_that_is_none_is_ignored_and_errors_are_errors() -> None:
    exporter = InMemorySpanExporter()
    traces = OtelTraces(exporter=exporter)
    span = traces.begin("x", {"traceparent": "nonsense"}, {"a": 1})
    span.child("y", {}).end("broken")
    span.sum("z", 0.25, {"b": 2})
    span.end()
    await traces.close()
    y, z, x = exporter.get_finished_spans()
    assert (z.parent, z.start_time, z.end_time - z.start_time) == (x.context, x.start_time, 250_000_000)
    assert (x.parent, y.parent) == (None, x.context)
    assert (y.status.is_ok, y.status.description, x.status.is_ok) == (False, "broken", True)


async def test_a_collector_that_hangs_does_not_keep_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "CLOSE_S", 0.05)

    class Hung(InMemorySpanExporter):
        def shutdown(self) -> None:
            time.sleep(0.5)  # in a thread of its own: this is what must not be waited for

    traces = OtelTraces(exporter=Hung())
    async with asyncio.timeout(0.4):
        await traces.close()


def test_packages_that_lack_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ringleader.api.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'ringleader\[otel\]'"):
        traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
