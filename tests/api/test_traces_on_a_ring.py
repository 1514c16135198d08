"""One request through a real ring of two nodes, as a collector of OpenTelemetry's sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.ring.cluster import Cluster, wait_until
from tests.ring.conftest import smollm
from tests.unit.api.test_otel import PARENT, TRACE, collector

__all__ = ["smollm"]
pytestmark = pytest.mark.ring
ROOT = "POST /v1/chat/completions"
SPANS_S = 60.0  # the SDK sends every five seconds


async def test_a_request_is_traced_through_every_shard(smollm: Path, tmp_path: Path) -> None:
    said: list[Any] = []
    runner, url = await collector(said)

    def start() -> None:
        cluster.start_master(
            "a", "--model", str(smollm), "--nodes", "2", "--layers", "a=0-10,b=11-29", "--context", "512"
        )
        cluster.start_follower("b")
        cluster.wait_ready()

    with Cluster(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url) as cluster:
        await asyncio.to_thread(start)
        body = {"model": "smollm2-135m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{cluster.api}/v1/chat/completions", json=body, headers=headers) as response:
                assert response.status == 200
        await asyncio.to_thread(
            wait_until, lambda: ROOT in traced(said), SPANS_S, lambda: f"got {sorted(traced(said))}"
        )
    await runner.cleanup()
    spans = traced(said)
    assert set(spans) == {ROOT, "answer", "queue", "prompt", "tokens", "shard 0", "shard 1"}
    answer = spans["answer"]
    for name in ("shard 0", "shard 1"):
        assert spans[name].parent_span_id == answer.span_id
        assert 0 < lasted_ns(spans[name]) < lasted_ns(answer)


def traced(said: list[Any]) -> dict[str, Any]:
    """The spans of the caller's trace, by their names."""
    every = [span for one in said for each in one.resource_spans for scope in each.scope_spans for span in scope.spans]
    return {span.name: span for span in every if span.trace_id.hex() == TRACE}


def lasted_ns(span: Any) -> int:
    """Its length."""
    return int(span.end_time_unix_nano - span.start_time_unix_nano)
