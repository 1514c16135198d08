"""Anthropic's and Ollama's SDKs against a real ring of two nodes: choices, loops, forms, errors, and leaving early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import jsonschema
import ollama
import pydantic
import pytest

from tests.api.anthropic_rules import checked, read_events
from tests.ring.cluster import Cluster
from tests.ring.conftest import smollm

__all__ = ["smollm"]
pytestmark = pytest.mark.ring

MODEL = "smollm2-135m"
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
CLOCK: Any = {"type": "object", "properties": {}}
TOOLS: Any = [
    {"name": "get_weather", "description": "The weather of a city.", "input_schema": SCHEMA},
    {"name": "now", "description": "The time.", "input_schema": CLOCK},
]
FUNCTIONS: Any = [
    {"type": "function", "function": {"name": tool["name"], "description": "x", "parameters": tool["input_schema"]}}
    for tool in TOOLS
]
HELLO: Any = [{"role": "user", "content": "Say hello."}]
SHORT: Any = {"model": "claude-opus-4-8", "max_tokens": 60, "messages": HELLO, "extra_body": {"seed": 3}}


class Place(pydantic.BaseModel):
    """What a structured answer is to be. No bounds: Anthropic's SDK takes them out of the schema and checks them."""

    city: str
    days: int


@pytest.fixture(scope="module")
def cluster(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("others")) as cluster:
        options = ("--layers", "a=0-10,b=11-29", "--context", "2048", "--alias", f"claude-*={MODEL}")
        cluster.start_master("a", "--model", str(smollm), "--nodes", "2", *options)
        cluster.start_follower("b")
        cluster.wait_ready()
        yield cluster


@pytest.fixture
async def claude(cluster: Cluster) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=cluster.api, api_key="any", max_retries=0, timeout=90) as client:
        yield client


@pytest.fixture
async def llama(cluster: Cluster) -> AsyncIterator[ollama.AsyncClient]:
    client = ollama.AsyncClient(host=cluster.api, timeout=90)
    yield client
    await client._client.aclose()


async def events_of(client: anthropic.AsyncAnthropic, **fields: Any) -> dict[str, Any]:
    """The message of a raw stream that obeys the rules."""
    asked = {**SHORT, **fields}
    asked |= asked.pop("extra_body")
    async with aiohttp.ClientSession() as session:
        async with session.post(
            str(client.base_url).rstrip("/") + "/v1/messages", json={**asked, "stream": True}
        ) as response:
            assert response.status == 200, await response.text()
            return checked(read_events(await response.text()))


# ---------------------------------------------------------------- Anthropic


def prompt_tokens(usage: Any) -> int:
    """All of a prompt: Anthropic's own count of its input leaves out what was kept from before."""
    return int(usage["input_tokens"] + (usage["cache_read_input_tokens"] or 0))


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "tool", "name": "get_weather"},
        {"type": "any", "disable_parallel_tool_use": True},
    ],
    ids=["tool", "any"],
)
async def test_a_forced_call_comes_first_alone_and_the_same_streamed_and_not(
    claude: anthropic.AsyncAnthropic, choice: Any
) -> None:
    whole = await claude.messages.create(**SHORT, tools=TOOLS, tool_choice=choice)
    streamed = await events_of(claude, tools=TOOLS, tool_choice=choice)
    (call,) = whole.content
    assert call.type == "tool_use"
    assert whole.stop_reason == streamed["stop_reason"] == "tool_use"
    if call.name == "get_weather":
        jsonschema.validate(call.input, SCHEMA)
    assert choice["type"] == "any" or call.name == "get_weather"
    assert [(block["name"], block["input"]) for block in streamed["content"]] == [(call.name, call.input)]
    assert prompt_tokens(whole.usage.model_dump()) == prompt_tokens(streamed["usage"]) > 50
    assert whole.usage.output_tokens == streamed["usage"]["output_tokens"] > 0


async def test_calls_in_parallel_are_blocks_of_their_own(claude: anthropic.AsyncAnthropic) -> None:
    message = await events_of(claude, tools=TOOLS, tool_choice={"type": "any"}, max_tokens=50)
    assert message["content"]
    assert {block["type"] for block in message["content"]} == {"tool_use"}
    assert len({block["id"] for block in message["content"]}) == len(message["content"])


async def test_none_gives_text_and_auto_gives_what_the_rules_allow(claude: anthropic.AsyncAnthropic) -> None:
    none = await events_of(claude, tools=TOOLS, tool_choice={"type": "none"}, max_tokens=20)
    assert [block["type"] for block in none["content"]] == ["text"]
    auto = await events_of(claude, tools=TOOLS, tool_choice={"type": "auto"}, max_tokens=20)
    assert auto["stop_reason"] in ("end_turn", "max_tokens", "tool_use")


async def test_a_loop_of_two_turns_with_a_failed_result_goes_on(claude: anthropic.AsyncAnthropic) -> None:
    choice: Any = {"type": "tool", "name": "get_weather"}
    async with claude.messages.stream(**SHORT, tools=TOOLS, tool_choice=choice) as stream:
        first = await stream.get_final_message()
    (call,) = first.content
    assert call.type == "tool_use"
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "is_error": True, "content": "no such city"}
    messages: Any = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    counted = await claude.messages.count_tokens(model=MODEL, messages=messages, tools=TOOLS)
    second = await claude.messages.create(**{**SHORT, "messages": messages}, tools=TOOLS)
    assert prompt_tokens(second.usage.model_dump()) == counted.input_tokens > prompt_tokens(first.usage.model_dump())
    assert second.usage.cache_read_input_tokens, "the second turn begins where the first was kept"
    assert second.content


async def test_a_structured_answer_parses_and_a_stop_sequence_ends_one(claude: anthropic.AsyncAnthropic) -> None:
    parsed = await claude.messages.parse(**SHORT, output_format=Place)
    assert isinstance(parsed.parsed_output, Place)
    text = (await events_of(claude, max_tokens=20, temperature=0))["content"][0]["text"]
    middle = text[6:8]
    cut = await claude.messages.create(**{**SHORT, "extra_body": {"temperature": 0}}, stop_sequences=[middle])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", middle)
    assert cut.content[0].type == "text"
    assert cut.content[0].text == text[: text.index(middle)]


async def test_each_end_is_told_by_its_reason(claude: anthropic.AsyncAnthropic) -> None:
    endless: Any = {**SHORT, "messages": [{"role": "user", "content": "Count from one to a thousand, in words."}]}
    assert (await claude.messages.create(**{**endless, "max_tokens": 3})).stop_reason == "max_tokens"


async def test_wrong_requests_raise_the_sdks_errors_and_the_ring_goes_on(claude: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="--alias"):
        await claude.messages.create(**{**SHORT, "model": "nobody"})
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > 2048 maximum"):
        await claude.messages.create(**{**SHORT, "messages": [{"role": "user", "content": "word " * 3000}]})
    unknown: Any = {"type": "tool", "name": "get_wether"}
    with pytest.raises(anthropic.BadRequestError, match="Did you mean get_weather"):
        await claude.messages.create(**SHORT, tools=TOOLS, tool_choice=unknown)
    broken: Any = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}}]
    with pytest.raises(anthropic.BadRequestError, match=r"tools\.0\.input_schema"):
        await claude.messages.create(**SHORT, tools=broken, tool_choice={"type": "any"})
    assert (await claude.messages.create(**{**SHORT, "max_tokens": 2})).usage.output_tokens == 2


async def test_a_stream_that_is_left_frees_its_slot(claude: anthropic.AsyncAnthropic, cluster: Cluster) -> None:
    endless: Any = {**SHORT, "max_tokens": 900, "messages": [{"role": "user", "content": "Tell a long story."}]}
    async with claude.messages.stream(**endless) as stream:
        async for event in stream:
            if event.type == "text":
                break
    async with asyncio.timeout(20):
        while (await asyncio.to_thread(cluster.view))["queue"]["running"]:  # noqa: ASYNC110  # in another process
            await asyncio.sleep(0.1)


# ---------------------------------------------------------------- Ollama


async def test_ollamas_chat_is_the_same_whole_and_in_lines(llama: ollama.AsyncClient) -> None:
    asked: Any = {"model": f"{MODEL}:latest", "messages": HELLO, "options": {"seed": 1, "num_predict": 12}}
    whole = await llama.chat(**asked)
    parts = [part async for part in await llama.chat(**asked, stream=True)]
    assert "".join(part.message.content or "" for part in parts) == whole.message.content != ""
    assert parts[-1].done
    assert parts[-1].eval_count == whole.eval_count
    assert (whole.total_duration or 0) > 0
    assert whole.model == f"{MODEL}:latest"


async def test_ollamas_forms_and_forced_calls_are_kept(llama: ollama.AsyncClient) -> None:
    options: Any = {"seed": 2, "num_predict": 60}
    answer = await llama.chat(model=MODEL, messages=HELLO, format=Place.model_json_schema(), options=options)
    Place.model_validate_json(answer.message.content or "")
    any_json = await llama.generate(model=MODEL, prompt="An empty object.", format="json", options=options)
    if any_json.done_reason == "stop":
        assert isinstance(json.loads(any_json.response), dict)
    body = {"model": MODEL, "messages": HELLO, "tools": FUNCTIONS, "options": options, "stream": False}
    async with aiohttp.ClientSession() as session:
        async with session.post(
            str(llama._client.base_url).rstrip("/") + "/api/chat", json={**body, "tool_choice": "get_weather"}
        ) as response:
            (call,) = (await response.json())["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    jsonschema.validate(call["function"]["arguments"], SCHEMA)
    messages: Any = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]}]
    messages.append({"role": "tool", "tool_name": "get_weather", "content": "sunny"})
    second = await llama.chat(model=MODEL, messages=messages, tools=FUNCTIONS, options={**options, "num_predict": 8})
    assert (second.prompt_eval_count or 0) > (answer.prompt_eval_count or 0)


async def test_ollama_knows_the_models_of_the_ring(llama: ollama.AsyncClient) -> None:
    (model,) = (await llama.list()).models
    (running,) = (await llama.ps()).models
    shown = await llama.show(MODEL)
    assert model.model == running.model == MODEL
    assert running.context_length == 2048
    assert shown.details is not None
    assert (shown.details.family, shown.details.parameter_size) == ("llama", "134.5M")
    assert (await llama.generate(model=MODEL)).done_reason == "load"
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        await llama.chat(model=MODEL, messages=HELLO, think=True)
    with pytest.raises(ollama.ResponseError) as caught:
        await llama.chat(model="nobody", messages=HELLO)
    assert caught.value.status_code == 404


async def test_ollamas_pull_of_what_is_not_to_be_had_fails_with_a_reason(llama: ollama.AsyncClient) -> None:
    with pytest.raises(ollama.ResponseError, match="nothing-of-this-name") as caught:
        await llama.pull("nothing-of-this-name")
    assert caught.value.status_code == 404
