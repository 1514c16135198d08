"""The OpenAPI document is what is served: every route, every body that is taken, every answer that is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ringleader.api.app import ROUTES, make_app
from ringleader.api.contracts import PullStep
from ringleader.api.json_lines import FRAMING
from ringleader.api.openapi import document
from ringleader.api.reference import HEAD, api_document, pages
from ringleader.errors import Busy, RingLost
from ringleader.node.response_store import SqliteResponses
from ringleader.values import (
    ArgumentsDelta,
    CallStarted,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)
from tests.api.scripted import CALLS, HELLO, MODEL, NOW, USAGE, WEATHER, ScriptedNode
from tests.api.scripted_library import ScriptedLibrary
from tests.unit.api.test_app import http
from tests.unit.api.test_tokens import Letters

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
ASK: Any = {"model": MODEL, "input": "hi"}
MESSAGES: Any = {**CHAT, "max_tokens": 9}
CLAUDES: Any = [{"name": "get_weather", "input_schema": {}}, {"name": "now", "input_schema": {}}]
THINKING: Any = {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}}
OLLAMA: Any = CHAT
CUT: Any = [ReasoningDelta("hm"), CallStarted(0, "now"), ArgumentsDelta(0, '{"a": '), Finished("length", USAGE)]
SCORED: Any = [TextDelta("Hi", (1,), (TokenLogprob(1, -0.5, ((2, -1.0),)),)), Finished("stop", USAGE)]
WARNED: Any = [TextDelta("a"), Finished("stop", USAGE, stopped_by="x", warnings=("w",))]
LOST: Any = [TextDelta("a"), RingLost("gone")]
STREAMED = {"calls": CALLS, "text": HELLO, "cut": CUT, "scored": SCORED, "warned": WARNED, "lost": LOST}
FLAT: Any = [{"type": "function", "name": "get_weather"}, {"type": "function", "name": "now"}]


def schema_of(path: str, method: str, status: str = "200", kind: str = "application/json") -> Any:
    told = api_document()
    answer = told["paths"][path][method]["responses"][status]["content"][kind]["schema"]
    return {**answer, "components": told["components"]}


def check(value: Any, schema: Any) -> None:
    jsonschema.Draft202012Validator(schema).validate(value)


def test_every_route_is_told_and_nothing_else() -> None:
    nobody: Any = object()
    app = make_app(nobody, nobody, nobody, tokenizing=nobody, responses=nobody, library=nobody)
    told = document(app[ROUTES])
    served = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method not in ("HEAD", "OPTIONS")
    }
    assert {(method.upper(), path) for path, methods in told["paths"].items() for method in methods} == served


def test_the_document_is_valid_as_far_as_its_schemas_go() -> None:
    told = api_document()
    names = [operation["operationId"] for methods in told["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in set(json.dumps(told).split('"$ref": "')[1:]):
        assert reference.split('"')[0].rsplit("/", 1)[1] in told["components"]["schemas"]


async def test_a_node_serves_it() -> None:
    async with http(ScriptedNode()) as session:
        async with session.get("/openapi.json") as response:
            told = await response.json()
    assert "/v1/responses" in told["paths"]
    assert "/openapi.json" in told["paths"]


@pytest.mark.parametrize(
    ("path", "body", "steps"),
    [
        ("/v1/chat/completions", {**CHAT, "tools": [WEATHER, NOW]}, CALLS),
        ("/v1/chat/completions", CHAT, HELLO),
        ("/v1/completions", {"model": MODEL, "prompt": "hi"}, HELLO),
        ("/v1/responses", {**ASK, "tools": FLAT, "metadata": {"a": "b"}}, CALLS),
        ("/v1/responses", {**ASK, "stop": "x"}, HELLO),
        ("/tokenize", {"model": MODEL, "prompt": "hi"}, HELLO),
        ("/detokenize", {"model": MODEL, "tokens": [97]}, HELLO),
        ("/v1/responses/input_tokens", ASK, HELLO),
        ("/v1/messages", MESSAGES, HELLO),
        ("/v1/messages", {**MESSAGES, "tools": CLAUDES, **THINKING}, CALLS),
        ("/v1/messages", MESSAGES, CUT),
        ("/v1/messages/count_tokens", {"model": MODEL, "messages": MESSAGES["messages"]}, HELLO),
        ("/api/chat", {**OLLAMA, "stream": False}, HELLO),
        ("/api/chat", {**OLLAMA, "stream": False, "tools": [WEATHER, NOW]}, CALLS),
        ("/api/chat", {"model": MODEL, "stream": False}, HELLO),
        ("/api/chat", {**OLLAMA, "stream": False, "logprobs": True}, SCORED),
        ("/api/generate", {"model": MODEL, "prompt": "hi", "stream": False}, WARNED),
        ("/api/show", {"model": MODEL}, HELLO),
        ("/api/pull", {"model": MODEL, "stream": False}, HELLO),
    ],
)
async def test_what_is_asked_and_what_is_answered_are_as_they_are_told(path: str, body: Any, steps: Any) -> None:
    told = api_document()
    asked = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    check(body, {**asked, "components": told["components"]})
    async with http(ScriptedNode(steps), tokenizing=Letters(), library=ScriptedLibrary(thinks=True)) as session:
        async with session.post(path, json=body) as response:
            assert response.status == 200
            check(await response.json(), schema_of(path, "post"))


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", CHAT), ("/v1/completions", {"model": MODEL, "prompt": "hi"}), ("/v1/responses", ASK)],
)
async def test_what_is_streamed_is_as_it_is_told(path: str, body: Any) -> None:
    schema = schema_of(path, "post", kind="text/event-stream")
    async with http(ScriptedNode(CALLS if "chat" in path else HELLO)) as session:
        async with session.post(path, json={**body, "stream": True}) as response:
            text = await response.text()
    events = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {")]
    assert events
    for event in events:
        check(json.loads(event), schema)


@pytest.mark.parametrize("steps", STREAMED.values(), ids=STREAMED)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {**MESSAGES, "tools": CLAUDES, **THINKING}),
        ("/api/chat", {**OLLAMA, "tools": [WEATHER, NOW], "think": True}),
        ("/api/generate", {"model": MODEL, "prompt": "hi"}),
        ("/api/pull", {"model": MODEL}),
    ],
)
async def test_what_the_other_doors_stream_is_as_it_is_told(path: str, body: Any, steps: Any) -> None:
    kind = "text/event-stream" if path.startswith("/v1") else FRAMING
    schema = schema_of(path, "post", kind=kind)
    pull = [PullStep("fetching", 1, 2), *(step for step in steps if isinstance(step, Exception))]
    async with http(ScriptedNode(steps), library=ScriptedLibrary(pull, thinks=True)) as session:
        async with session.post(path, json={**body, "stream": True}) as response:
            assert response.content_type == kind
            text = await response.text()
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith(("data: {", "{"))]
    assert lines
    for line in lines:
        check(json.loads(line), schema)
    assert ("error" in json.loads(lines[-1])) == (steps is LOST)


async def test_models_and_stored_responses_are_as_they_are_told(tmp_path: Path) -> None:
    store = SqliteResponses(tmp_path / "r.sqlite")
    async with http(ScriptedNode(), responses=store, library=ScriptedLibrary()) as session:
        async with session.post("/v1/responses", json=ASK) as response:
            made = (await response.json())["id"]
        for path, at in (
            ("/v1/models", "/v1/models"),
            ("/v1/models/{id}", f"/v1/models/{MODEL}"),
            ("/v1/responses/{id}", f"/v1/responses/{made}"),
            ("/v1/responses/{id}/input_items", f"/v1/responses/{made}/input_items"),
            ("/health", "/health"),
            ("/api/version", "/api/version"),
            ("/api/tags", "/api/tags"),
            ("/api/ps", "/api/ps"),
        ):
            for headers in ({}, {"anthropic-version": "2023-06-01"}):
                async with session.get(at, headers=headers) as response:
                    check(await response.json(), schema_of(path, "get"))
        async with session.delete(f"/v1/responses/{made}") as response:
            check(await response.json(), schema_of("/v1/responses/{id}", "delete"))
    await store.close()


async def test_errors_are_as_they_are_told() -> None:
    async with http(ScriptedNode(refuse=Busy("full"))) as session:
        for path, good in (("/v1/chat/completions", CHAT), ("/v1/messages", MESSAGES), ("/api/chat", OLLAMA)):
            for body in ({}, good):
                async with session.post(path, json=body) as response:
                    assert response.status >= 400
                    check(await response.json(), schema_of(path, "post", "default"))


def test_the_pages_of_the_reference_are_those_that_are_committed() -> None:
    made = pages(api_document())
    assert {file.name for file in REFERENCE.glob("*.md")} == set(made), "run make reference"
    for name, text in made.items():
        assert text.startswith(HEAD)
        assert (REFERENCE / name).read_text(encoding="utf-8") == text, f"docs/reference/{name} is stale: make reference"
