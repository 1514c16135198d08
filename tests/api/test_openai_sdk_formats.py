"""The real OpenAI SDK: parsed answers, several choices, custom tools, and functions as they were before tools."""

from __future__ import annotations

from typing import Any

import openai
import pydantic
import pytest

from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ContentFormat,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from tests.api.scripted import CALLS, HELLO, NOW, USAGE, WEATHER, ScriptedNode
from tests.api.test_openai_sdk import ASK, sdk

PATCH: Any = {
    "type": "custom",
    "custom": {
        "name": "patch",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}},
    },
}
PATCHED: tuple[Delta, ...] = (
    CallStarted(0, "patch"),
    ArgumentsDelta(0, "ab"),
    ArgumentsDelta(0, "c\n"),
    CallEnded(0),
    Finished("tool_calls", USAGE),
)
CALLED: tuple[Delta, ...] = (
    CallStarted(0, "get_weather"),
    ArgumentsDelta(0, '{"city": '),
    ArgumentsDelta(0, '"Oslo"}'),
    CallEnded(0),
    Finished("tool_calls", USAGE),
)


class Capital(pydantic.BaseModel):
    city: str
    people: int


JSON: tuple[Delta, ...] = (
    ReasoningDelta("hm"),
    TextDelta('{"city": "Os'),
    TextDelta('lo", "people": 700000}'),
    Finished("stop", USAGE),
)


async def test_an_answer_is_parsed_into_the_clients_own_model() -> None:
    node = ScriptedNode(JSON)
    async with sdk(node) as client:
        answer = await client.chat.completions.parse(**ASK, response_format=Capital)
    assert answer.choices[0].message.parsed == Capital(city="Oslo", people=700000)
    (asked,) = node.requests
    assert asked.content is not None
    assert (asked.content.kind, asked.content.name, asked.content.strict) == ("json_schema", "Capital", True)
    assert asked.content.schema is not None
    assert asked.content.schema["required"] == ["city", "people"]


async def test_a_parsed_stream_ends_in_the_clients_own_model() -> None:
    async with sdk(ScriptedNode(JSON)) as client:
        async with client.chat.completions.stream(**ASK, response_format=Capital) as stream:
            async for _ in stream:
                pass
            answer = await stream.get_final_completion()
    assert answer.choices[0].message.parsed == Capital(city="Oslo", people=700000)


async def test_any_json_object_may_be_asked_for() -> None:
    node = ScriptedNode([TextDelta("{}"), Finished("stop", USAGE)])
    async with sdk(node) as client:
        await client.chat.completions.create(**ASK, response_format={"type": "json_object"})
    assert node.requests[0].content == ContentFormat("json_object")


async def test_three_choices_stream_side_by_side_with_their_own_seeds_ids_and_ends() -> None:
    node = ScriptedNode(CALLS, HELLO, CALLS)
    seen: dict[int, str] = {0: "", 1: "", 2: ""}
    ids: set[str] = set()
    finishes: list[tuple[int, str]] = []
    usages = []
    async with sdk(node) as client:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}, "tools": [WEATHER, NOW]}
        async for chunk in await client.chat.completions.create(**ASK, n=3, seed=5, **options):
            usages += [chunk.usage] if chunk.usage else []
            for choice in chunk.choices:
                seen[choice.index] += choice.delta.content or ""
                ids |= {call.id for call in choice.delta.tool_calls or [] if call.id}
                finishes += [(choice.index, choice.finish_reason)] if choice.finish_reason else []
    assert seen == {0: "", 1: "Hello ☀", 2: ""}
    assert len(ids) == 4
    assert sorted(finishes) == [(0, "tool_calls"), (1, "stop"), (2, "tool_calls")]
    assert [request.sampling.seed for request in node.requests] == [5, 6, 7]
    assert [(usage.prompt_tokens, usage.completion_tokens) for usage in usages] == [(11, 21)]


async def test_the_sdk_accumulates_choices_that_come_side_by_side() -> None:
    async with sdk(ScriptedNode(HELLO, CALLS)) as client:
        async with client.chat.completions.stream(**ASK, n=2, tools=[WEATHER, NOW]) as stream:
            answer = await stream.get_final_completion()
    assert answer.choices[0].message.content == "Hello ☀"
    assert [call.function.name for call in answer.choices[1].message.tool_calls or []] == ["get_weather", "now"]


async def test_whole_choices_are_in_their_order() -> None:
    async with sdk(ScriptedNode(HELLO, CALLS)) as client:
        answer = await client.chat.completions.create(**ASK, n=2, tools=[WEATHER, NOW])
    assert [(choice.index, choice.finish_reason) for choice in answer.choices] == [(0, "stop"), (1, "tool_calls")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_functions_work_as_they_did_before_tools() -> None:
    ask: Any = {**ASK, "functions": [WEATHER["function"]], "function_call": {"name": "get_weather"}}
    node = ScriptedNode(CALLED)
    async with sdk(node) as client:
        choice = (await client.chat.completions.create(**ask)).choices[0]
    assert choice.finish_reason == "function_call"
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    assert choice.message.function_call.name == "get_weather"
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'
    assert node.requests[0].tool_choice == {"type": "function", "function": {"name": "get_weather"}}
    name = arguments = ""
    async with sdk(ScriptedNode(CALLED)) as client:
        async for chunk in await client.chat.completions.create(**ask, stream=True):
            piece = chunk.choices[0].delta.function_call
            if piece is not None:
                name += piece.name or ""
                arguments += piece.arguments or ""
    assert (name, arguments) == ("get_weather", '{"city": "Oslo"}')
    assert chunk.choices[0].finish_reason == "function_call"


async def test_a_second_turn_of_functions_goes_back_as_the_sdk_made_it() -> None:
    ask: Any = {"model": ASK["model"], "functions": [WEATHER["function"]]}
    node = ScriptedNode(CALLED, HELLO)
    async with sdk(node) as client:
        message = (await client.chat.completions.create(**ask, messages=ASK["messages"])).choices[0].message
        turns: Any = [*ASK["messages"], message, {"role": "function", "name": "get_weather", "content": "sunny"}]
        await client.chat.completions.create(**ask, messages=turns)
    _, called, result = node.requests[1].messages
    assert called.tool_calls[0].arguments == '{"city": "Oslo"}'
    assert result.tool_call_id == called.tool_calls[0].id


async def test_a_custom_tools_call_carries_its_input_and_goes_back_as_it_came() -> None:
    choice: Any = {"type": "custom", "custom": {"name": "patch"}}
    node = ScriptedNode(PATCHED, HELLO)
    async with sdk(node) as client:
        answer = await client.chat.completions.create(**ASK, tools=[PATCH], tool_choice=choice)
        message = answer.choices[0].message
        (call,) = message.tool_calls or []
        assert call.type == "custom"
        assert (call.custom.name, call.custom.input) == ("patch", "abc\n")
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": "done"}
        await client.chat.completions.create(
            model=ASK["model"], messages=[*ASK["messages"], message, result], tools=[PATCH]
        )
    assert node.requests[1].messages[1].tool_calls[0].arguments == "abc\n"
    assert node.requests[1].messages[1].tool_calls[0].kind == "custom"


async def test_a_custom_tools_input_streams() -> None:
    pieces: list[Any] = []
    async with sdk(ScriptedNode(PATCHED)) as client:
        async for chunk in await client.chat.completions.create(**ASK, tools=[PATCH], stream=True):
            pieces += [call.to_dict() for call in chunk.choices[0].delta.tool_calls or []]
    assert pieces[0].pop("id").startswith("call_")
    assert pieces == [
        {"index": 0, "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 0, "custom": {"input": "ab"}},
        {"index": 0, "custom": {"input": "c\n"}},
    ]


async def test_a_format_that_is_none_is_refused_by_name() -> None:
    async with sdk(ScriptedNode()) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**ASK, response_format={"type": "yaml"})  # type: ignore[call-overload] # wrong on purpose
    assert caught.value.param == "response_format.type"
