"""What /metrics tells: requests by door and status, answers by their end, waits, tokens, and the cluster of now."""

from __future__ import annotations

import asyncio

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from ringleader.api.app import ApiServer
from ringleader.errors import Busy, RingLost
from ringleader.values import Finished, Json, TextDelta
from tests.api.scripted import MODEL, USAGE, ScriptedNode, served

ASK: Json = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
CLUSTER: Json = {
    "term": 3,
    "queue": {"waiting": 2, "running": 1, "max": 256},
    "nodes": [{"name": "a", "state": "ok", "memory_free_bytes": 5}, {"name": "b", "state": "lost"}],
    "rings": [
        {"model": MODEL, "state": "ready", "served_tokens": 9, "stages": [
            {"name": "a", "first_layer": 0, "last_layer": 29, "memory_bytes": 7}
        ]}
    ],
}  # fmt: skip


class Samples(dict[tuple[str, frozenset[str]], float]):
    """Samples by name and label values: `samples(name, *values)`."""

    def __call__(self, name: str, *values: str) -> float | None:
        return self.get((name, frozenset(values)))


async def scraped(server: ApiServer) -> Samples:
    """Every sample by its name and its labels' values."""
    async with aiohttp.ClientSession(server.url) as session, session.get("/metrics") as response:
        assert response.status == 200
        families = list(text_string_to_metric_families(await response.text()))
    return Samples({(s.name, frozenset(s.labels.values())): s.value for family in families for s in family.samples})


async def ask(server: ApiServer, **fields: Json) -> int:
    async with aiohttp.ClientSession(server.url) as session:
        async with session.post("/v1/chat/completions", json=ASK | fields) as response:
            await response.read()
            return response.status


async def test_an_answer_is_counted_with_its_tokens_waits_and_end() -> None:
    async with served(ScriptedNode()) as server:
        assert await ask(server) == 200
        found = await scraped(server)
    path = "/v1/chat/completions"
    assert found("ringleader_http_requests_total", path, "POST", "200") == 1
    assert found("ringleader_answers_total", MODEL, "stop") == 1
    assert found("ringleader_tokens_total", MODEL, "prompt") == USAGE.prompt_tokens
    assert found("ringleader_tokens_total", MODEL, "cached") == USAGE.cached_tokens
    assert found("ringleader_tokens_total", MODEL, "completion") == USAGE.completion_tokens
    assert found("ringleader_tokens_total", MODEL, "forced") == USAGE.forced_tokens
    assert found("ringleader_tokens_total", MODEL, "guessed") == USAGE.accepted_tokens
    assert found("ringleader_tokens_total", MODEL, "guessed_wrong") == USAGE.drafted_tokens - USAGE.accepted_tokens
    assert found("ringleader_passes_total", MODEL) == USAGE.passes
    assert found("ringleader_time_to_first_token_seconds_count", MODEL) == 1
    assert found("ringleader_time_per_token_seconds_count", MODEL) == 1
    assert found("ringleader_answers_running") == 0


async def test_what_fails_is_counted_by_how() -> None:
    async with served(ScriptedNode([TextDelta("x"), RingLost("gone")])) as server:
        await ask(server, stream=True)
        assert (await scraped(server))("ringleader_answers_total", MODEL, "unavailable") == 1
    async with served(ScriptedNode(refuse=Busy("full"))) as server:
        assert await ask(server) == 429
        found = await scraped(server)
        assert found("ringleader_answers_total", "", "busy") == 1
        assert found("ringleader_http_requests_total", "/v1/chat/completions", "POST", "429") == 1


async def test_an_answer_that_its_client_left_is_cancelled_and_runs_no_more() -> None:
    node = ScriptedNode([TextDelta("x"), asyncio.Event(), Finished("stop", USAGE)])
    async with served(node) as server:
        async with aiohttp.ClientSession(server.url) as session:
            async with session.post("/v1/chat/completions", json=ASK | {"stream": True}) as response:
                await response.content.readline()
                assert (await scraped(server))("ringleader_answers_running") == 1
        await asyncio.wait_for(node.deltas.closed.wait(), 5)
        found = await scraped(server)
    assert found("ringleader_answers_running") == 0
    assert found("ringleader_answers_total", MODEL, "cancelled") == 1


async def test_addresses_that_nobody_serves_share_one_series() -> None:
    async with served(ScriptedNode()) as server, aiohttp.ClientSession(server.url) as session:
        for path in ("/wp-login.php", "/.env"):
            async with session.get(path) as response:
                assert response.status == 404
        assert (await scraped(server))("ringleader_http_requests_total", "other", "other", "404") == 2


async def test_the_cluster_is_told_as_it_is_when_asked() -> None:
    node = ScriptedNode()
    node.picture = CLUSTER
    async with served(node) as server:
        found = await scraped(server)
        assert found("ringleader_node_up", "a") == 1
        assert found("ringleader_node_up", "b") == 0
        assert found("ringleader_queue_waiting") == 2
        assert found("ringleader_shard_memory_bytes", MODEL, "a", "0-29") == 7
        assert found("ringleader_ring_ready", MODEL) == 1
        node.picture = {}
        assert (await scraped(server))("ringleader_node_up", "a") is None


async def test_ready_says_what_is_still_loading() -> None:
    node = ScriptedNode()
    loading: Json = {"model": MODEL, "state": "loading", "stages": [{"progress": 0.5}, {"progress": 1.0}]}
    steps: list[tuple[Json, int, Json]] = [
        ({}, 200, {}),
        ({"rings": [loading]}, 503, {MODEL: "loading, 75%"}),
        ({"rings": [loading | {"state": "ready"}]}, 200, {MODEL: "ready"}),
    ]
    async with served(node) as server, aiohttp.ClientSession(server.url) as session:
        for node.picture, status, models in steps:
            async with session.get("/ready") as response:
                assert (response.status, (await response.json())["models"]) == (status, models)
        node.status = "no master"
        async with session.get("/ready") as response:
            assert (response.status, (await response.json())["status"]) == (503, "no master")
