"""The real Ollama SDK against the real server over a scripted node and library, and raw lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import ollama
import pytest

from ringleader.api.auth import FixedKeys
from ringleader.errors import BadRequest, Busy, ModelFault, OurFault, RingLost, UnknownModel
from ringleader.values import Finished, TextDelta
from tests.api.scripted import CALLS, MODEL, USAGE, WEATHER, ScriptedNode, body, served
from tests.api.scripted_library import STEPS, ScriptedLibrary

ASK: Any = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def sdk(node: ScriptedNode, library: ScriptedLibrary | None = None, **options: Any) -> AsyncIterator[Any]:
    async with served(node, library=library or ScriptedLibrary(), **options) as server:
        client = ollama.AsyncClient(host=server.url, timeout=10)
        yield client
        await client._client.aclose()


@asynccontextmanager
async def http(
    node: ScriptedNode, library: ScriptedLibrary | None = None, **options: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(node, library=library or ScriptedLibrary(), **options) as server:
        async with aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout(total=10)) as session:
            yield session


async def test_an_answer_arrives_whole_and_line_by_line() -> None:
    async with sdk(ScriptedNode()) as client:
        whole = await client.chat(**ASK)
    async with sdk(ScriptedNode()) as client:
        parts = [part async for part in await client.chat(**ASK, stream=True)]
    assert whole.message.content == "".join(part.message.content for part in parts) == "Hello ☀"
    assert (whole.done, whole.done_reason, whole.prompt_eval_count, whole.eval_count) == (True, "stop", 11, 7)
    assert parts[-1].total_duration > 0
    assert [part.done for part in parts] == [False, False, True]


async def test_calls_and_thinking_arrive_whole() -> None:
    async with sdk(ScriptedNode(CALLS), ScriptedLibrary(thinks=True)) as client:
        message = (await client.chat(**ASK, tools=[WEATHER], think=True)).message
    assert message.thinking == "hm"
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("get_weather", {"city": "Oslo"}),
        ("now", {}),
    ]


async def test_a_loop_of_two_turns_sends_the_calls_back_as_they_came() -> None:
    node = ScriptedNode(CALLS, [TextDelta("done"), Finished("stop", USAGE)])
    async with sdk(node) as client:
        first = await client.chat(**ASK, tools=[WEATHER])
        messages = [*ASK["messages"], first.message]
        messages += [
            {"role": "tool", "tool_name": call.function.name, "content": "1"} for call in first.message.tool_calls
        ]
        second = await client.chat(model=MODEL, messages=messages)
    assert second.message.content == "done"
    assert [message.role for message in node.requests[1].messages] == ["user", "assistant", "tool", "tool"]


async def test_a_prompt_is_answered_and_an_empty_one_loads() -> None:
    node = ScriptedNode(["x"] and [TextDelta("a"), Finished("stop", USAGE)], [TextDelta("a"), Finished("stop", USAGE)])
    async with sdk(node) as client:
        assert (await client.generate(model=MODEL, prompt="hi", system="s")).response == "a"
        loaded = await client.generate(model=MODEL)
    assert (loaded.response, loaded.done_reason) == ("", "load")
    assert node.requests[1].max_tokens == 1
    async with sdk(ScriptedNode()) as client:
        with pytest.raises(ollama.ResponseError, match="keep_alive: 0 cannot be honoured"):
            await client.generate(model=MODEL, keep_alive=0)


async def test_models_are_listed_shown_and_the_loaded_ones_told() -> None:
    async with sdk(ScriptedNode()) as client:
        listed = (await client.list()).models
        running = (await client.ps()).models
        shown = await client.show(f"{MODEL}:latest")
    assert [model.model for model in listed] == [MODEL, "org/big"]
    assert (listed[0].details.parameter_size, listed[0].details.quantization_level) == ("134.5M", "fp32")
    assert [(model.model, model.context_length) for model in running] == [(MODEL, 8192)]
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.capabilities == ["completion", "tools"]
    assert shown.template == "{{ messages }}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (BadRequest("no", param="format"), 400),
        (UnknownModel("who"), 404),
        (Busy("full"), 503),
        (RingLost("gone"), 503),
        (OurFault("secret"), 500),
        (KeyError("secret"), 500),
    ],
)
async def test_a_refusal_raises_the_sdks_exception(fault: Exception, status: int, stream: bool) -> None:
    async with sdk(ScriptedNode(refuse=fault)) as client:
        with pytest.raises(ollama.ResponseError) as caught:
            answer = await client.chat(**ASK, stream=stream)
            async for _ in answer if stream else ():
                pass
    assert caught.value.status_code == status
    assert "secret" not in caught.value.error


async def test_a_ring_lost_amid_the_lines_is_a_line_with_the_error() -> None:
    async with sdk(ScriptedNode([TextDelta("once"), RingLost("mac-mini is gone")])) as client:
        with pytest.raises(ollama.ResponseError, match="mac-mini is gone"):
            async for _ in await client.chat(**ASK, stream=True):
                pass
    async with http(ScriptedNode([TextDelta("once"), KeyError("secret")])) as session:
        async with session.post("/api/chat", json=ASK) as response:
            assert response.headers["Content-Type"] == "application/x-ndjson"
            lines = [json.loads(line) for line in (await response.text()).splitlines()]
    assert lines[0]["message"]["content"] == "once"
    assert set(lines[-1]) == {"error"}
    assert "secret" not in lines[-1]["error"]


async def test_a_stream_left_in_the_middle_closes_the_deltas() -> None:
    node = ScriptedNode([TextDelta("once"), asyncio.Event()])
    async with http(node) as session:
        async with session.post("/api/chat", json=ASK) as response:
            await response.content.readline()
            response.close()
            async with asyncio.timeout(2):
                await node.deltas.closed.wait()
    assert node.deltas.cancelled


async def test_a_pull_tells_how_it_goes_and_ends_when_nobody_listens() -> None:
    library = ScriptedLibrary()
    async with sdk(ScriptedNode(), library) as client:
        steps = [step async for step in await client.pull("hf.co/org/name:latest", stream=True)]
        assert (await client.pull("x")).status == "success"
    assert library.pulled == ["hf:org/name", "x"]
    assert [(step.status, step.completed, step.total) for step in steps] == [
        ("look up x", None, None),
        ("fetch x", 5, 10),
        ("fetch x", 10, 10),
        ("success", None, None),
    ]
    library = ScriptedLibrary([*STEPS, asyncio.Event()])
    async with http(ScriptedNode(), library) as session:
        async with session.post("/api/pull", json={"name": "x"}) as response:
            await response.content.readline()
            response.close()
            async with asyncio.timeout(2):
                await library.closed.wait()


async def test_a_pull_that_fails_says_why_before_or_amid_its_lines() -> None:
    async with sdk(ScriptedNode(), ScriptedLibrary([UnknownModel("no such model")])) as client:
        with pytest.raises(ollama.ResponseError) as caught:
            await client.pull("x")
        assert caught.value.status_code == 404
        with pytest.raises(ollama.ResponseError, match="no such model"):
            async for _ in await client.pull("x", stream=True):
                pass
    async with sdk(ScriptedNode(), ScriptedLibrary([*STEPS, ModelFault("cut off")])) as client:
        with pytest.raises(ollama.ResponseError, match="cut off"):
            async for _ in await client.pull("x", stream=True):
                pass


async def test_thinking_of_a_model_that_has_none_is_refused_and_a_context_that_is_not_there_is_warned_of() -> None:
    async with sdk(ScriptedNode()) as client:
        with pytest.raises(ollama.ResponseError, match="does not support thinking"):
            await client.chat(**ASK, think=True)
    async with http(ScriptedNode()) as session:
        async with session.post("/api/chat", json={**ASK, "options": {"num_ctx": 9000}}) as response:
            assert "num_ctx 9000 is more than the 8192 tokens" in response.headers["Warning"]


async def test_the_small_doors_are_there() -> None:
    async with http(ScriptedNode()) as session:
        async with session.get("/api/version") as response:
            assert set(await response.json()) == {"version", "ringleader"}
        async with session.post("/api/embed", json={}) as response:
            assert response.status == 501
            assert set(await response.json()) == {"error"}
        for path in ("/", "/api/tags", "/api/version"):
            async with session.head(path) as response:
                assert response.status == 200
        async with session.post("/api/chat", data=b"{") as response:
            assert response.status == 400
            assert "could not parse" in (await response.json())["error"]
    async with http(ScriptedNode(), keys=FixedKeys("right")) as session:
        async with session.post("/api/chat", json=body()) as response:
            assert response.status == 401
            assert "API key" in (await response.json())["error"]
