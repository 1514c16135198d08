"""OpenAI's SDK and its agents against a real ring of two nodes: Responses, completions and tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import openai
import pydantic
import pytest

from tests.api.response_rules import check_stream
from tests.ring.cluster import Cluster
from tests.ring.conftest import smollm

__all__ = ["smollm"]
pytestmark = pytest.mark.ring

MODEL = "smollm2-135m"
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
    "strict": True,
}
CLOCK: Any = {"type": "function", "name": "now", "description": "The time.", "parameters": None, "strict": None}
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Applies a patch.",
    "format": {
        "type": "grammar",
        "syntax": "lark",
        "definition": 'start: "*** Begin\\n" line "*** End"\nline: /[a-z]{1,8}/ "\\n"',
    },
}
SHORT: Any = {"model": MODEL, "temperature": 0, "max_output_tokens": 120}


@pytest.fixture(scope="module")
def cluster(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("doors")) as cluster:
        layers = ("--layers", "a=0-10,b=11-29")
        cluster.start_master("a", "--model", str(smollm), "--nodes", "2", *layers, "--context", "2048")
        cluster.start_follower("b")
        cluster.wait_ready()
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{cluster.api}/v1", api_key="any", max_retries=0, timeout=60) as client:
        yield client


async def events_of(client: openai.AsyncOpenAI, **fields: Any) -> list[Any]:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{client.base_url}responses", json={**SHORT, "stream": True, **fields}) as response:
            assert response.status == 200, await response.text()
            return check_stream(await response.text())


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "get_weather"},
        "required",
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
    ],
    ids=["named", "required", "allowed"],
)
async def test_a_forced_call_arrives_whole_and_streamed_and_is_the_same(
    client: openai.AsyncOpenAI, choice: Any
) -> None:
    ask = {"input": "Say hello.", "tools": [CLOCK, WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
    whole = await client.responses.create(**SHORT, **ask)
    events = await events_of(client, **ask)
    (call,) = whole.output
    assert call.type == "function_call"
    assert call.status == "completed"
    if choice != "required":
        assert call.name == "get_weather"
        jsonschema.validate(json.loads(call.arguments), WEATHER["parameters"])
    (streamed,) = events[-1]["response"]["output"]
    assert (streamed["name"], streamed["arguments"]) == (call.name, call.arguments)
    assert whole.usage is not None
    assert whole.usage.output_tokens > 0


async def test_auto_gives_text_or_calls_and_none_gives_text(client: openai.AsyncOpenAI) -> None:
    for choice in ("auto", "none"):
        events = await events_of(
            client, input="Say hello.", tools=[WEATHER, CLOCK], tool_choice=choice, max_output_tokens=20
        )
        output = events[-1]["response"]["output"]
        assert output
        if choice == "none":
            assert [item["type"] for item in output] == ["message"]


async def test_a_custom_tools_input_keeps_its_grammar(client: openai.AsyncOpenAI) -> None:
    choice = {"type": "custom", "name": "apply_patch"}
    events = await events_of(client, input="Patch it.", tools=[PATCH], tool_choice=choice)
    (call,) = events[-1]["response"]["output"]
    assert call["type"] == "custom_tool_call"
    assert call["input"].startswith("*** Begin\n")
    assert call["input"].endswith("*** End")


async def test_two_turns_go_on_stored_and_stateless(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(**SHORT, input="Weather?", tools=[WEATHER], tool_choice="required")
    results: list[Any] = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        for call in first.output
        if call.type == "function_call"
    ]
    assert results
    ask: Any = {**SHORT, "max_output_tokens": 20, "tools": [WEATHER], "tool_choice": "none"}
    stored = await client.responses.create(**ask, input=results, previous_response_id=first.id)
    turns: Any = [{"role": "user", "content": "Weather?"}, *(item.model_dump() for item in first.output), *results]
    stateless = await client.responses.create(**ask, input=turns, store=False)
    assert stored.output_text
    assert stored.output_text == stateless.output_text
    assert (await client.responses.retrieve(stored.id)).output_text == stored.output_text


class City(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    people: int = pydantic.Field(ge=0, le=99)


async def test_an_answer_has_the_form_that_was_asked_for(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.parse(**SHORT, input="Name a city.", text_format=City)
    assert isinstance(answer.output_parsed, City)


async def test_an_answer_that_is_cut_is_incomplete(client: openai.AsyncOpenAI) -> None:
    events = await events_of(client, input="Tell me a long story.", max_output_tokens=5)
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["usage"]["output_tokens"] == 5


async def test_a_client_that_leaves_frees_its_place(client: openai.AsyncOpenAI) -> None:
    for _ in range(3):
        stream = await client.responses.create(model=MODEL, input="Tell me a long story.", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
    assert (await client.responses.create(**{**SHORT, "max_output_tokens": 3}, input="Hi")).status == "incomplete"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": {"type": "function", "name": "nope"}, "tools": [WEATHER]}, "tool_choice"),
        ({"tools": [{**WEATHER, "parameters": {"type": "strin"}}]}, "tools[0].parameters"),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "x"}}}}, "text.format.schema"),
        ({"input": "long " * 4000}, "input"),
        ({"model": "who"}, "model"),
    ],
)
async def test_what_is_wrong_names_this_apis_field(client: openai.AsyncOpenAI, fields: Any, param: str) -> None:
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as caught:
        await client.responses.create(**{**SHORT, "input": "hi", **fields})
    assert caught.value.param == param


async def test_a_prompt_is_continued_as_it_is_by_any_node(client: openai.AsyncOpenAI, cluster: Cluster) -> None:
    ask: Any = {"model": MODEL, "prompt": "One, two, three, four,", "max_tokens": 8, "temperature": 0}
    whole = (await client.completions.create(**ask, logprobs=1)).choices[0]
    assert " five" in whole.text
    assert whole.logprobs is not None
    assert "".join(whole.logprobs.tokens or []) == whole.text
    api = cluster.nodes["b"].api
    async with openai.AsyncOpenAI(base_url=f"{api}/v1", api_key="any", max_retries=0, timeout=60) as other:
        chunks = [chunk async for chunk in await other.completions.create(**ask, stream=True)]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text


async def test_tokens_are_told_and_read_back(cluster: Cluster) -> None:
    async with aiohttp.ClientSession(cluster.api) as session:
        async with session.post("/tokenize", json={"model": MODEL, "prompt": "hello ☀"}) as response:
            told = await response.json()
        async with session.post("/detokenize", json={"model": MODEL, "tokens": told["tokens"]}) as response:
            assert (await response.json())["prompt"] == "hello ☀"
    assert (told["count"], told["max_model_len"]) == (len(told["tokens"]), 2048)


async def test_openais_agents_run_a_tool_and_hear_of_its_result(client: openai.AsyncOpenAI) -> None:
    agents = pytest.importorskip("agents", reason="openai-agents is not installed")
    asked: list[tuple[str, int]] = []

    @agents.function_tool  # type: ignore[untyped-decorator] # the package is optional
    def get_weather(city: str, days: int) -> str:
        """The weather of a city."""
        asked.append((city, days))
        return "sunny"

    agents.set_tracing_disabled(True)
    agent = agents.Agent(
        name="forecaster",
        instructions="Use the tool.",
        tools=[get_weather],
        model=agents.OpenAIResponsesModel(MODEL, client),
        model_settings=agents.ModelSettings(tool_choice="required", max_tokens=60, temperature=0),
    )
    result = await agents.Runner.run(agent, "Weather in Oslo?", max_turns=6)
    assert asked
    assert isinstance(result.final_output, str)
