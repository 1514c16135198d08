"""Text of a form, custom tools and several choices, asked for with OpenAI's SDK of a real ring of two shards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from tests.ring.cluster import Cluster

pytestmark = pytest.mark.ring

ASK: Any = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "What is your name? Answer OK and nothing else."}],
    "max_tokens": 100,
}


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=20)
    age: int = pydantic.Field(ge=0, le=120)
    likes: list[str] = pydantic.Field(max_length=2)


def custom(name: str, syntax: str, definition: str) -> Any:
    grammar = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"type": "custom", "custom": {"name": name, "format": grammar}}


SUM = custom("sum", "lark", 'start: TERM ("+" TERM){1,3}\nTERM: /[1-9][0-9]?/')
DAY = custom("day", "regex", r"\d{4}-[01]\d-[0-3]\d")
NOW: Any = {"type": "function", "function": {"name": "now"}}


@pytest.fixture(scope="module")
def client(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with Cluster(tmp_path_factory.mktemp("forms")) as cluster:
        node = cluster.start_master("a", "--model", str(smollm), "--shards", "2")
        with openai.OpenAI(base_url=f"{node.api}/v1", api_key="any", max_retries=0, timeout=90) as made:
            yield made


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_answer_is_the_clients_own_model_streamed_or_not(client: openai.OpenAI, seed: int) -> None:
    whole = client.chat.completions.parse(**ASK, response_format=Person, seed=seed).choices[0]
    assert whole.finish_reason == "stop"
    assert isinstance(whole.message.parsed, Person)
    with client.chat.completions.stream(**ASK, response_format=Person, seed=seed) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.message.content == whole.message.content


def test_several_choices_are_independent_legal_calls(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**ASK, tools=[NOW, SUM, DAY], tool_choice="required", n=3, seed=1)
    assert [choice.finish_reason for choice in answer.choices] == ["tool_calls"] * 3
    ids = [call.id for choice in answer.choices for call in choice.message.tool_calls or []]
    assert len(ids) >= 3
    assert len(set(ids)) == len(ids)
    alone = client.chat.completions.create(**ASK, tools=[NOW, SUM, DAY], tool_choice="required", seed=2).choices[0]
    told = [call.to_dict() | {"id": ""} for call in alone.message.tool_calls or []]
    assert told == [call.to_dict() | {"id": ""} for call in answer.choices[1].message.tool_calls or []]


@pytest.mark.parametrize(("name", "pattern"), [("sum", r"[1-9]\d?(\+[1-9]\d?){1,3}"), ("day", r"\d{4}-[01]\d-[0-3]\d")])
def test_a_custom_tools_input_follows_its_grammar_streamed_or_not(
    client: openai.OpenAI, name: str, pattern: str
) -> None:
    choice: Any = {"type": "custom", "custom": {"name": name}}
    wish: Any = {**ASK, "tools": [NOW, SUM, DAY], "tool_choice": choice, "seed": 5}
    answer = client.chat.completions.create(**wish).choices[0]
    (call,) = answer.message.tool_calls or []
    assert answer.finish_reason == "tool_calls"
    assert call.type == "custom"
    assert re.fullmatch(pattern, call.custom.input), call.custom.input
    pieces: list[Any] = [
        piece.to_dict()
        for chunk in client.chat.completions.create(**wish, stream=True)
        for piece in chunk.choices[0].delta.tool_calls or []
    ]
    assert "".join(piece["custom"]["input"] for piece in pieces) == call.custom.input


def test_what_is_only_checked_is_warned_of(client: openai.OpenAI) -> None:
    schema = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "maxItems": 3, "uniqueItems": True}
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": False}}
    answer = client.chat.completions.with_raw_response.create(**ASK, response_format=form)
    assert len(json.loads(answer.parse().choices[0].message.content or "")) == 3
    assert "non-unique" in answer.headers["Warning"]
    form["json_schema"]["strict"] = True
    with pytest.raises(openai.BadRequestError, match="uniqueItems"):
        client.chat.completions.create(**ASK, response_format=form)


def picking(count: int) -> Any:
    """A tool whose argument has `count` items out of two, each once: three can be written, and are never valid."""
    items = {"type": "array", "items": {"enum": [1, 2]}, "minItems": count, "maxItems": count, "uniqueItems": True}
    parameters = {"type": "object", "properties": {"x": items}, "required": ["x"]}
    return {"type": "function", "function": {"name": "pick", "parameters": parameters}}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "pick"}}], ids=str)
def test_a_forced_call_of_a_tool_that_is_not_strict_is_checked_when_it_is_whole(
    client: openai.OpenAI, choice: Any
) -> None:
    wish: Any = {**ASK, "tools": [picking(1)], "tool_choice": choice, "parallel_tool_calls": False}
    answer = client.chat.completions.with_raw_response.create(**wish)
    assert "'uniqueItems' cannot be enforced" in answer.headers["Warning"]
    (call,) = answer.parse().choices[0].message.tool_calls or []
    assert json.loads(call.function.arguments)["x"] in ([1], [2])
    wish["tools"] = [picking(3)]
    with pytest.raises(openai.BadRequestError, match="non-unique elements") as refused:
        client.chat.completions.create(**wish)
    assert (refused.value.code, refused.value.param) == ("invalid_tool_call", "tools[0].function.parameters")
    with client.chat.completions.with_streaming_response.create(**wish, stream=True) as raw:
        assert "each call of 'pick' is checked" in raw.headers["Warning"]
        events = [line for line in raw.iter_lines() if line.startswith("data: ")]
    assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "invalid_tool_call"
    assert 'finish_reason":"tool_calls' not in "".join(events)
    wish["tools"][0]["function"]["strict"] = True
    with pytest.raises(openai.BadRequestError, match="uniqueItems"):
        client.chat.completions.create(**wish)


def test_a_pattern_that_outgrows_the_engine_is_refused_before_a_token_is_computed(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(?:.{0,50}a){50}$"}}}
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    with pytest.raises(openai.BadRequestError, match="Make it simpler") as refused:
        client.chat.completions.create(**ASK, tools=tools)
    assert (refused.value.code, refused.value.param) == ("grammar_too_complex", "tools[0].function.parameters")
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with pytest.raises(openai.BadRequestError, match="Make it simpler") as refused:
        client.chat.completions.create(**ASK, response_format=form)
    assert (refused.value.code, refused.value.param) == ("grammar_too_complex", "response_format.json_schema.schema")
