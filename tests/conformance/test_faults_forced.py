"""Faults of forced choice that other servers were reported for (FC of the public log), as tests of this one."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ringleader.errors import BadRequest
from tests.conformance.saying import FAMILIES, PLAIN, SOME, TOOLS, door, hear
from tests.conformance.serving import NOTE, NOW, PING, WEATHER, allowed, asked, client_of, function, named
from tests.conformance.test_checklist import ask, calls_of, names, node, says
from tests.unit.language.builders import NOW as NOW_ALONE
from tests.unit.language.dialects.family import Family


async def test_fc01_a_named_tool_is_called_and_not_only_offered() -> None:
    for kind in ("end", "prose", "random"):
        choice = await ask(node(kind=kind), tools=[PING, NOW], tool_choice=named("ping"))
        assert names(calls_of(choice)) == ["ping"]


async def test_fc02_fc05_each_of_the_four_choices_does_something_else() -> None:
    text = "OK"
    assert (await ask(says(text), tools=[NOW, PING], tool_choice="none")).message.content == text
    assert (await ask(says(text), tools=[NOW, PING], tool_choice="auto")).message.content == text
    forced = await ask(node(kind="end"), tools=[NOW, PING], tool_choice="required")
    assert forced.finish_reason == "tool_calls"
    assert names(calls_of(await ask(node(kind="end"), tools=[NOW, PING], tool_choice=named("now")))) == ["now"]


@pytest.mark.parametrize(
    "choice",
    [
        named("ping"),
        {"type": "tool", "name": "ping"},
        {"type": "function", "name": "ping"},
        "ping",
        "required",
        "any",
        allowed("required", "ping"),
    ],
    ids=json.dumps,
)
def test_fc03_fc24_every_spelling_of_a_forced_choice_is_taken(choice: Any) -> None:
    prompt = door(tools=[PING], tool_choice=choice)
    assert (prompt.choice.mode, prompt.choice.permitted, prompt.choice.least) == ("required", ("ping",), 1)


async def test_fc07_a_chat_goes_on_after_a_request_with_tools() -> None:
    made = says("Hello.")
    async with client_of(made) as client:
        for fields in ({"tools": [WEATHER, NOW]}, {}):
            answer = await client.chat.completions.create(**asked(**fields))
            assert answer.choices[0].message.content == "Hello."


@pytest.mark.parametrize("label", [label for label, family in FAMILIES.items() if family.dialect == "harmony"])
async def test_fc08_harmony_is_forced_into_a_call(label: str) -> None:
    for kind in ("end", "prose", "random", "markers"):
        choice = await ask(node(FAMILIES[label], kind), tools=[WEATHER, NOW], tool_choice="required")
        assert calls_of(choice)
        assert choice.finish_reason == "tool_calls"


def test_fc10_what_is_no_call_is_never_reported_as_one() -> None:
    heard = hear("OK", choice="required", constrained=False)
    assert (heard.text, heard.calls, heard.finish) == ("OK", [], "stop")


def test_fc14_a_list_with_a_least_length_is_taken() -> None:
    many = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    tool = function("tag", {"type": "object", "properties": {"tags": many}, "required": ["tags"]})
    assert door(tools=[tool], tool_choice="required").grammar


async def test_fc15_the_arguments_of_a_named_call_are_no_prose() -> None:
    for kind in ("prose", "end", "markers"):
        (call,) = calls_of(await ask(node(kind=kind), tools=[NOTE], tool_choice=named("note")))
        assert set(call[1]) == {"text"}


@pytest.mark.parametrize("tools", [[], None], ids=["an empty list", "none"])
@pytest.mark.parametrize("choice", ["required", "any", named("now")], ids=json.dumps)
def test_fc16_fc26_a_forced_choice_without_tools_is_refused(tools: Any, choice: Any) -> None:
    body = {} if tools is None else {"tools": tools}
    with pytest.raises(BadRequest) as caught:
        door(**body, tool_choice=choice)
    assert caught.value.param == "tool_choice"


def test_fc20_a_call_of_a_tool_that_does_not_exist_is_text() -> None:
    written = PLAIN.write([("evil", {})])
    heard = hear(written, tools=(NOW_ALONE,), constrained=False)
    assert (heard.calls, heard.begun, heard.finish) == ([], 0, "stop")
    assert "evil" in heard.text


async def test_fc21_a_forced_call_streams_as_a_call_and_not_as_text() -> None:
    async with client_of(node()) as client:
        stream = await client.chat.completions.create(**asked(tools=[WEATHER], tool_choice="required"), stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
    assert not any(delta.content for delta in deltas)
    assert any(delta.tool_calls for delta in deltas)


def test_fc22_text_that_only_looks_like_a_call_is_kept_where_none_may_be_made() -> None:
    spelled = [token for char in "Use <tool_call> tags" for token in PLAIN.tokenizer.encode(char)]
    assert hear(spelled, choice="none").text == "Use <tool_call> tags"


async def test_fc27_a_choice_may_be_forced_while_the_model_thinks() -> None:
    family = FAMILIES["json_tags, thinking"]
    for seed in range(5):
        assert calls_of(await ask(node(family), tools=TOOLS_ON_THE_WIRE, tool_choice="required", seed=seed))


async def test_fc28_an_agent_that_forces_every_turn_gets_a_call_every_turn() -> None:
    messages: list[Any] = asked()["messages"]
    seen: set[str] = set()
    async with client_of(node()) as client:
        for turn in range(3):
            body = asked(messages=messages, tools=[PING], tool_choice="required", seed=turn)
            message = (await client.chat.completions.create(**body)).choices[0].message
            assert message.tool_calls
            ids = [call.id for call in message.tool_calls]
            assert not seen & set(ids), "an id came back"
            seen |= set(ids)
            results = [{"role": "tool", "tool_call_id": id_, "content": "pong"} for id_ in ids]
            messages = [*messages, message.to_dict(), *results]


def test_fc29_none_needs_no_tools() -> None:
    assert door(tool_choice="none").choice.mode == "none"
    assert door(tool_choice="none", tools=[]).choice.mode == "none"


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_fc30_a_parameter_may_be_named_as_the_markup_is(family: Family) -> None:
    keys = ["_name", "name", "arguments", "parameters", "type", "function", "id", "text"]
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys}
    tool = type(TOOLS[0])("odd", "", schema)
    values = {key: f"the {key}" for key in keys}
    heard = hear(family.write([("odd", values)]), family, tools=(tool,))
    assert [(name, json.loads(arguments)) for name, arguments in heard.calls] == [("odd", values)]
    jsonschema.validate(values, schema)


TOOLS_ON_THE_WIRE = [WEATHER, NOW, NOTE]
