"""The spans of a request, told to a list."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ringleader.api.traces import Fact, traces_of
from ringleader.errors import Busy, RingLost
from ringleader.values import Finished, TextDelta
from tests.api.scripted import HELLO, USAGE, ScriptedNode, body
from tests.unit.api.test_app import CHAT, http


@dataclass
class ToldSpan:
    name: str
    facts: dict[str, Fact]
    parts: list[ToldSpan] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def child(self, name: str, facts: Mapping[str, Fact]) -> ToldSpan:
        self.parts.append(ToldSpan(name, dict(facts)))
        return self.parts[-1]

    def note(self, facts: Mapping[str, Fact]) -> None:
        self.facts |= facts

    def sum(self, name: str, seconds: float, facts: Mapping[str, Fact]) -> None:
        self.parts.append(ToldSpan(name, {"seconds": seconds, **facts}, ends=[""]))

    def end(self, error: str = "") -> None:
        self.ends.append(error)

    def drawn(self) -> Any:
        """Names, ends and parts; everything is ended once."""
        (end,) = self.ends
        return (self.name, end, [part.drawn() for part in self.parts])


class Told:
    def __init__(self) -> None:
        self.spans: list[ToldSpan] = []
        self.closed = False

    def begin(self, name: str, headers: Mapping[str, str], facts: Mapping[str, Fact]) -> ToldSpan:
        self.spans.append(ToldSpan(name, {**facts, "parent": headers.get("traceparent", "")}))
        return self.spans[-1]

    async def close(self) -> None:
        self.closed = True


POST = f"POST {CHAT}"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_a_span_with_its_answers_wait_prompt_and_tokens(stream: bool) -> None:
    told = Told()
    async with http(ScriptedNode(), traces=told) as session:
        async with session.post(CHAT, json=body(stream=stream), headers={"traceparent": "00-a"}) as response:
            await response.read()
            name = response.headers["x-request-id"]
    assert told.closed
    (span,) = told.spans
    parts = [("queue", "", []), ("prompt", "", []), ("tokens", "", [])]
    assert span.drawn() == (POST, "", [("answer", "", parts)])
    assert span.facts == {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "ringleader.request_id": name,
        "parent": "00-a",
    }
    assert span.parts[0].facts["gen_ai.usage.output_tokens"] == USAGE.completion_tokens
    assert span.parts[0].facts["gen_ai.request.model"] == body()["model"]


async def test_each_choice_is_an_answer_of_its_own() -> None:
    told = Told()
    async with http(ScriptedNode(HELLO, HELLO), traces=told) as session:
        async with session.post(CHAT, json=body(n=2)) as response:
            await response.read()
    assert [part.name for part in told.spans[0].parts] == ["answer", "answer"]
    assert [end for part in told.spans[0].parts for end in part.ends] == ["", ""]


async def test_each_shard_is_a_span_as_long_as_it_computed_for_the_answer() -> None:
    told = Told()
    ended = Finished("stop", replace(USAGE, shard_s=(0.5, 0.25)))
    async with http(ScriptedNode([TextDelta("a"), ended]), traces=told) as session:
        async with session.post(CHAT, json=body()) as response:
            await response.read()
    shards = [part for part in told.spans[0].parts[0].parts if part.name.startswith("shard")]
    assert [(part.name, part.facts["seconds"]) for part in shards] == [("shard 0", 0.5), ("shard 1", 0.25)]


async def test_spans_say_how_a_request_failed() -> None:
    told = Told()
    async with http(ScriptedNode(refuse=Busy("full")), traces=told) as session:
        async with session.post(CHAT, json=body()) as response:
            assert response.status == 429
    async with http(ScriptedNode([TextDelta("a"), RingLost("gone")]), traces=told) as session:
        async with session.post(CHAT, json=body()) as response:
            assert response.status == 503
        async with session.get("/nowhere") as response:
            assert response.status == 404
    refused, lost, nowhere = told.spans
    assert refused.drawn() == (POST, "", [("answer", "busy", [("queue", "busy", [])])])
    ways = [("queue", "", []), ("prompt", "", []), ("tokens", "unavailable", [])]
    assert lost.drawn() == (POST, "status 503", [("answer", "unavailable", ways)])
    assert nowhere.drawn() == ("GET other", "", [])


async def test_a_client_that_leaves_ends_its_spans() -> None:
    told, never = Told(), asyncio.Event()
    node = ScriptedNode([TextDelta("a"), never])
    async with http(node, traces=told) as session:
        async with session.post(CHAT, json=body(stream=True)) as response:
            await response.content.readline()
            response.close()
        await node.deltas.closed.wait()
    (answer,) = told.spans[0].parts
    assert answer.drawn()[1] == "cancelled"
    assert told.spans[0].ends == ["the client left"]


def test_without_an_endpoint_there_are_no_traces_and_nothing_is_imported_for_them() -> None:
    assert traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) is None
    code = "import sys, ringleader.node.node; print([name for name in sys.modules if 'otel' in name or '.sdk' in name])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "[]"


async def test_a_client_that_closes_after_the_last_byte_has_not_left() -> None:
    for _ in range(20):  # the answer's own end is a race with the connection's
        told = Told()
        async with http(ScriptedNode(), traces=told) as session:
            async with session.post(CHAT, json=body(stream=True)) as response:
                await response.read()
                response.close()
        assert told.spans[0].ends == [""]
