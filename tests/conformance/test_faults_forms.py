"""Faults of structured output, of errors and of load (SO, ER and SP of the public log and the checklist)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import jsonschema
import openai
import pytest

from ringleader.errors import BadRequest
from ringleader.values import ArgumentsDelta, CallStarted, ContentFormat
from tests.conformance.adversary import generate
from tests.conformance.saying import FAMILIES, PLAIN, SOME, door
from tests.conformance.serving import (
    NOTE,
    NOW,
    PING,
    WEATHER,
    MadeUpNode,
    asked,
    client_of,
    function,
    named,
    random_mind,
)
from tests.conformance.tastes import KINDS, taste
from tests.conformance.test_checklist import THINKING, ask, calls_of, node, says
from tests.unit.language.builders import collect, request
from tests.unit.language.dialects.family import Family

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def form(schema: Any, *, strict: bool | None = True) -> dict[str, Any]:
    """The `response_format` of a schema."""
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": strict, "schema": schema}}
    }


# ---------------------------------------------------------------- text of a form


@pytest.mark.parametrize("kind", KINDS)
async def test_so01_a_json_object_is_one_whatever_the_model_wants(kind: str) -> None:
    choice = await ask(node(kind=kind), response_format={"type": "json_object"}, max_tokens=300)
    assert isinstance(json.loads(choice.message.content), dict)
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("beside", ["nothing", "tools", "none of the tools", "thinking"])
@pytest.mark.parametrize("kind", ["random", "prose", "end", "whitespace"])
async def test_so01_a_schema_holds_beside_tools_and_thinking(kind: str, beside: str) -> None:
    family = THINKING if beside == "thinking" else PLAIN
    more: dict[str, Any] = {"tools": [NOW, NOTE]} if "tools" in beside else {}
    if beside == "none of the tools":
        more["tool_choice"] = "none"
    choice = await ask(node(family, kind), **form(NUMBER), **more, max_tokens=300)
    if calls_of(choice):
        assert beside == "tools"
        return
    jsonschema.validate(json.loads(choice.message.content), NUMBER)


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_so02_every_dialect_writes_text_of_a_form_or_refuses_to(family: Family) -> None:
    wish = request("auto", ())
    for seed, kind in enumerate(("random", "prose", "end")):
        model = taste(kind, family.tokenizer, family.voice.dialect, seed)
        formed = _formed(wish, NUMBER)
        deltas, finish, _ = generate(family.voice, formed, model.logits, 300)
        found = collect(deltas)
        jsonschema.validate(json.loads(found.text), NUMBER)
        assert (finish, found.calls) == ("stop", [])


def _formed(wish: Any, schema: Any) -> Any:
    return type(wish)(wish.model, wish.messages, wish.sampling, content=ContentFormat("json_schema", "s", schema, True))


async def test_so03_what_is_not_strict_is_checked_and_told() -> None:
    schema = {"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    async with client_of(node()) as client:
        raw = await client.chat.completions.with_raw_response.create(**asked(**form(schema, strict=False)))
    assert "uniqueItems" in raw.headers["Warning"]
    assert "does not match" in raw.headers["Warning"]
    assert json.loads(raw.parse().choices[0].message.content or "") == [1, 1]
    with pytest.raises(BadRequest, match="uniqueItems"):
        door(**form(schema))


@pytest.mark.parametrize("label", [label for label, family in FAMILIES.items() if family.thought is not None])
async def test_so04_so09_so10_a_model_that_thinks_for_ever_still_gives_its_form_as_text(label: str) -> None:
    choice = await ask(node(FAMILIES[label], "thinks for ever"), **form(NUMBER), max_tokens=200)
    jsonschema.validate(json.loads(choice.message.content), NUMBER)
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("kind", ["whitespace", "digits", "nesting"])
@pytest.mark.parametrize(
    "schema", [NUMBER, {"type": "object"}, {"type": "array", "items": {"type": "number"}}], ids=json.dumps
)
async def test_so05_so08_no_model_loops_to_its_last_token(schema: Any, kind: str) -> None:
    made = node(kind=kind)
    choice = await ask(made, **form(schema), max_tokens=800)
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), schema)


async def test_so06_text_of_a_form_that_the_budget_cuts_says_length() -> None:
    long = {"type": "object", "properties": {f"property_{n}": {"type": "integer"} for n in range(20)}}
    choice = await ask(node(kind="end"), **form({**long, "required": list(long["properties"])}), max_tokens=20)
    assert choice.finish_reason == "length"


async def test_so07_order_unicode_and_numbers_are_the_same_in_a_stream() -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"enum": ["é 🐢\n"]}, "a": {"enum": [1.5e-7, 10]}, "m": {"type": "boolean"}},
        "required": ["z", "a", "m"],
        "additionalProperties": False,
    }
    async with client_of(node()) as client:
        whole = (await client.chat.completions.create(**asked(**form(schema)))).choices[0].message.content
        stream = await client.chat.completions.create(**asked(**form(schema)), stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == whole
    assert list(json.loads(whole or "")) == ["z", "a", "m"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"enum": []},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"$ref": "#"},
        {"type": "nonsense"},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "(?=a)"},
        {"type": "string", "format": "phone"},
        {"not": {"type": "string"}},
    ],
    ids=json.dumps,
)
def test_so02_so08_so15_what_cannot_be_met_or_enforced_is_refused_by_name(schema: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        door(**form(schema))
    assert caught.value.param == "response_format"
    tool = function("f", {"type": "object", "properties": {"v": schema}, "required": ["v"]}, strict=True)
    with pytest.raises(BadRequest) as caught:
        door(tools=[tool])
    assert caught.value.param == "tools[0].function.parameters"


def _nested(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "^(a+)+$"},
        {"type": "string", "pattern": "[a-z]{1,100000}"},
        {"type": "array", "items": {"type": "string"}, "maxItems": 10_000},
        {"enum": [f"value {n}" for n in range(5000)]},
        _nested(2000),
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}},
        {"anyOf": [{"type": "object", "properties": {f"p{n}": _nested(5)}} for n in range(300)]},
    ],
    ids=[
        "broken",
        "nested stars",
        "100,000 letters",
        "10,000 items",
        "5,000 words",
        "2,000 deep",
        "3,000 keys",
        "300 ways",
    ],
)
def test_so03_so04_er03_a_schema_that_is_much_is_served_or_refused_at_once(schema: Any) -> None:
    begun = time.perf_counter()
    for body in (
        form(schema),
        {"tools": [function("f", {"type": "object", "properties": {"v": schema}})], "tool_choice": "f"},
    ):
        try:
            prompt = door(**body)
        except BadRequest:
            continue
        assert prompt.grammar
    assert time.perf_counter() - begun < 10, "measured: a second; CI may be busy"


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (
            {
                "allOf": [
                    {"properties": {"x": {"type": "integer", "minimum": 10}}},
                    {"properties": {"y": {"type": "string", "maxLength": 3}}},
                ],
                "type": "object",
                "required": ["x", "y"],
            },
            "allOf",
        ),
        ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}, "pattern and maxLength"),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"type": "null"},
                ]
            },
            "anyOf",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_so05_so07_so17_all_parts_of_a_schema_count(schema: Any, name: str) -> None:
    for kind in ("random", "digits", "prose"):
        choice = await ask(node(kind=kind), **form(schema), max_tokens=400)
        jsonschema.validate(json.loads(choice.message.content), schema)


async def test_so12_so14_eight_at_once_get_their_own_form() -> None:
    async with client_of(MadeUpNode(PLAIN.voice, random_mind(PLAIN.voice))) as client:
        schemas = [{**NUMBER, "properties": {"n": {"const": n}}} for n in range(8)]
        wishes = [client.chat.completions.create(**asked(**form(schema), seed=3)) for schema in schemas]
        answers = await asyncio.gather(*wishes)
    assert [json.loads(answer.choices[0].message.content or "") for answer in answers] == [{"n": n} for n in range(8)]


def test_so16_what_only_openai_refuses_is_taken_and_bad_names_are_not() -> None:
    loose = {"type": "object", "properties": {"a": {"type": "string"}, "b": _nested(12)}}
    assert door(tools=[function("f", loose, strict=True)], tool_choice="f").grammar
    for name in ("", "a b", "é", "x" * 65):
        with pytest.raises(BadRequest) as caught:
            door(tools=[function(name, loose)])
        assert caught.value.param == "tools[0].function.name"


# ---------------------------------------------------------------- errors


async def test_er01_after_each_error_the_server_still_answers() -> None:
    wrong: list[dict[str, Any]] = [
        {"tool_choice": "required"},
        {"tools": [NOW], "tool_choice": named("now_")},
        {"tools": [function("f", {"type": "nonsense"})], "tool_choice": "f"},
        form({"type": "string", "pattern": "("}),
        {"messages": []},
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
        {"messages": [{"role": "user", "content": "word " * 20_000}]},
        {"top_logprobs": 3},
        {"stream_options": {"include_usage": True}},
        {"logit_bias": {"99999999": 1}},
    ]
    async with client_of(says("Hello.")) as client:
        for fields in wrong:
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(**asked(**fields))
            answer = await client.chat.completions.create(**asked())
            assert answer.choices[0].message.content == "Hello."


# ---------------------------------------------------------------- followers, load


@pytest.mark.parametrize("temperature", [0, 1])
async def test_sp01_sp02_followers_change_nothing_and_double_nothing(temperature: float) -> None:
    tool = function(
        "deep",
        {
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}},
            "required": ["a"],
        },
    )
    told = []
    for followers in (True, False):
        made = node()
        made.desk.followers = followers
        choice = await ask(made, tools=[tool], tool_choice="deep", temperature=temperature)
        told.append(choice.message.tool_calls[0].function.arguments)
    assert told[0] == told[1]
    assert set(json.loads(told[0])) == {"a"}


async def test_sp04_a_large_request_does_not_disturb_a_small_one() -> None:
    made = node(kind="end")
    async with client_of(made) as client:
        many = [function(f"tool_{n}", WEATHER["function"]["parameters"]) for n in range(60)]
        large = client.chat.completions.create(**asked(tools=many, tool_choice="required"))
        small = client.chat.completions.create(**asked(max_tokens=3))
        first, second = await asyncio.gather(large, small, return_exceptions=True)
    assert isinstance(first, openai.BadRequestError) or first.choices[0].message.tool_calls  # type: ignore[union-attr]  # either
    assert not isinstance(second, BaseException)


async def test_sp05_fifty_clients_that_leave_leave_nothing_behind() -> None:
    made = node(kind="prose")
    async with client_of(made) as client:
        for n in range(50):
            body = asked(tools=[NOTE, PING], tool_choice="note", max_tokens=4000, seed=n)
            stream = await client.chat.completions.create(**body, stream=True)
            await anext(stream)
            await stream.close()
        async with asyncio.timeout(10):
            for _ in range(50):
                await made.cancelled.get()
    assert not made.running


def test_a_call_is_told_of_before_its_arguments_are_known() -> None:
    deltas, _, _ = generate(
        PLAIN.voice, request("note"), taste("prose", PLAIN.tokenizer, PLAIN.voice.dialect, 1).logits, 100
    )
    assert isinstance(deltas[0], CallStarted)
    assert len([delta for delta in deltas if isinstance(delta, ArgumentsDelta)]) > 10
