"""`GET /metrics` for Prometheus: what this node's callers ask and wait for, and the cluster as this node sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ringleader.api.contracts import Answerer, ClusterView
from ringleader.api.fault_table import rule_of
from ringleader.api.routes import Route
from ringleader.api.sse import left
from ringleader.values import Answer, ChatRequest, Delta, Finished, Json, ModelId

WAITS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TOKEN_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
UNROUTED = "other"  # what is asked of addresses that nobody serves must not make a series each


class Metrics:
    """The instruments of one node, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.http = Counter(
            "ringleader_http_requests", "HTTP requests that ended", ["path", "method", "status"], registry=registry
        )
        self.http_s = Histogram(
            "ringleader_http_request_seconds",
            "From a request's head to its answer's end",
            ["path"],
            buckets=WAITS_S,
            registry=registry,
        )
        self.answers = Counter("ringleader_answers", "Answers by how they ended", ["model", "end"], registry=registry)
        self.tasks = Gauge("ringleader_tasks", "asyncio tasks of this process", registry=registry)
        self.running = Gauge("ringleader_answers_running", "Answers that are not over", registry=registry)
        self.first_s = Histogram(
            "ringleader_time_to_first_token_seconds",
            "From accepting a request to its first token",
            ["model"],
            buckets=WAITS_S,
            registry=registry,
        )
        self.token_s = Histogram(
            "ringleader_time_per_token_seconds",
            "Seconds a token of an answer, after the first",
            ["model"],
            buckets=TOKEN_S,
            registry=registry,
        )
        self.tokens = Counter(
            "ringleader_tokens",
            "Tokens: of prompts and those kept from before, of answers and their reasoning, forced and guessed ones",
            ["model", "kind"],
            registry=registry,
        )
        self.passes = Counter("ringleader_passes", "Trips round the ring for answers", ["model"], registry=registry)


def make_counting(metrics: Metrics) -> Middleware:
    """The middleware that counts requests. It stands outside of all others: also what is refused counts."""

    @web.middleware
    async def counting(request: web.Request, handler: Handler) -> web.StreamResponse:
        since = time.perf_counter()
        resource = request.match_info.route.resource
        path = UNROUTED if resource is None else resource.canonical
        status = "499"  # the client left
        try:
            response = await handler(request)
            status = str(response.status)
            return response
        finally:
            status = "200" if status == "499" and not left(request) else status
            metrics.http.labels(path, request.method if path != UNROUTED else UNROUTED, status).inc()
            metrics.http_s.labels(path).observe(time.perf_counter() - since)

    return counting


class Metered:
    """An answerer whose answers are measured; otherwise the one that it was made of."""

    def __init__(self, answerer: Answerer, metrics: Metrics) -> None:
        self._answerer = answerer
        self._metrics = metrics

    async def answer(self, request: ChatRequest) -> Answer:
        """As `Answerer.answer`."""
        since = time.perf_counter()
        try:
            answer = await self._answerer.answer(request)
        except Exception as error:  # counted, and raised again
            self._metrics.answers.labels("", rule_of(error).kind).inc()
            raise
        return replace(answer, deltas=_MeteredDeltas(answer.model, answer.deltas, self._metrics, since))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """As `Answerer.token_bytes`."""
        return self._answerer.token_bytes(model, token)


class _MeteredDeltas:
    """An answer's deltas; measures when they come and how they end."""

    def __init__(self, model: ModelId, deltas: AsyncIterator[Delta], metrics: Metrics, since: float) -> None:
        self._model, self._deltas, self._metrics, self._since = model, deltas, metrics, since
        self._first: float | None = None
        self._first_tokens = 0
        self._over = False
        metrics.running.inc()

    def __aiter__(self) -> _MeteredDeltas:
        return self

    async def __anext__(self) -> Delta:
        try:
            delta = await self._deltas.__anext__()
        except Exception as error:
            self._end("" if isinstance(error, StopAsyncIteration) else rule_of(error).kind)
            raise
        if isinstance(delta, Finished):
            self._finished(delta)
        elif self._first is None:
            self._first, self._first_tokens = time.perf_counter(), len(delta.tokens)
            self._metrics.first_s.labels(self._model).observe(self._first - self._since)
        return delta

    async def aclose(self) -> None:
        """Close the deltas; those that were not over were cancelled."""
        self._end("cancelled")
        close = getattr(self._deltas, "aclose", None)
        if close is not None:
            await close()

    def _finished(self, finished: Finished) -> None:
        usage, m, model = finished.usage, self._metrics, self._model
        kinds = {
            "prompt": usage.prompt_tokens,
            "cached": usage.cached_tokens,
            "completion": usage.completion_tokens,
            "reasoning": usage.reasoning_tokens,
            "forced": usage.forced_tokens,
            "guessed": usage.accepted_tokens,
            "guessed_wrong": usage.drafted_tokens - usage.accepted_tokens,
        }
        for kind, count in kinds.items():
            m.tokens.labels(model, kind).inc(count)
        m.passes.labels(model).inc(usage.passes)
        later = usage.completion_tokens - self._first_tokens
        if self._first is not None and later > 0:
            m.token_s.labels(model).observe((time.perf_counter() - self._first) / later)
        self._end(finished.reason)

    def _end(self, how: str) -> None:
        if not self._over:
            self._over = True
            self._metrics.running.dec()
            self._metrics.answers.labels(self._model, how or "internal").inc()


class MetricsDoor:
    """Gives the instruments' state, and with it the cluster's as it is at that moment."""

    def __init__(self, metrics: Metrics, view: ClusterView) -> None:
        self._metrics = metrics
        self._view = view

    def routes(self) -> list[Route]:
        """Where it is served."""
        return [Route("GET", "/metrics", self.handle, "cluster", "What this node measures, for Prometheus.")]

    async def handle(self, request: web.Request) -> web.Response:
        """Prometheus' text format."""
        self._metrics.tasks.set(len(asyncio.all_tasks()))
        text = generate_latest(self._metrics.registry) + generate_latest(cluster_registry(await self._view.cluster()))
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def cluster_registry(cluster: Mapping[str, Json]) -> CollectorRegistry:
    """What `/v1/cluster` tells, as gauges. All of it comes from the master: any one node's is enough."""
    registry = CollectorRegistry()

    def gauge(name: str, about: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"ringleader_{name}", about, labels, registry=registry)

    queue = cluster.get("queue") or {}
    gauge("queue_waiting", "Requests that wait for a place").set(queue.get("waiting") or 0)
    gauge("queue_running", "Requests that are answered").set(queue.get("running") or 0)
    gauge("term", "Election number of the master that this node follows; 0 without one").set(cluster.get("term") or 0)
    free = gauge("node_memory_free_bytes", "Memory that a node can give without swapping", ("node",))
    here = gauge("node_up", "Whether the node is here", ("node",))
    for node in cluster.get("nodes") or ():
        here.labels(node["name"]).set(node.get("state") != "lost")
        free.labels(node["name"]).set(node.get("memory_free_bytes") or 0)
    ready = gauge("ring_ready", "Whether the model can be asked without a wait", ("model",))
    weights = gauge("shard_memory_bytes", "What MLX holds in a shard", ("model", "node", "layers"))
    served = gauge("ring_served_tokens", "Tokens of answers since the master of today began", ("model",))
    for ring in cluster.get("rings") or ():
        ready.labels(ring["model"]).set(ring.get("state") == "ready")
        served.labels(ring["model"]).set(ring.get("served_tokens") or 0)
        for stage in ring.get("stages") or ():
            layers = f"{stage.get('first_layer')}-{stage.get('last_layer')}"
            weights.labels(ring["model"], stage.get("name") or "", layers).set(stage.get("memory_bytes") or 0)
    return registry
