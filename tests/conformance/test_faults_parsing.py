"""Faults of parsing and of types (PA and TY of the public log): calls as models write them without a grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llguidance import LLMatcher

from ringleader.language.prompt import compose
from ringleader.values import Tool
from tests.conformance.saying import FAMILIES, PLAIN, SOME, hear, shown
from tests.conformance.serving import NOW, asked, client_of, function
from tests.conformance.test_checklist import ask, calls_of, node, says
from tests.unit.language.builders import NOTE, request
from tests.unit.language.builders import NOW as NOW_TOOL
from tests.unit.language.dialects.family import Family

UPDATE = Tool(
    "upd",
    "",
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "flag": {"type": "boolean"},
            "meta": {"type": "object"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["id"],
    },
)
TOOLS = (NOTE, NOW_TOOL, UPDATE)
BOUNDED: Any = {  # without the free object, whose keys a random model writes for long
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string", "maxLength": 20}, "flag": {"type": "boolean"}},
    "required": ["id"],
}


def read(label: str, written: str, **more: Any) -> list[tuple[str, Any]]:
    """The calls in an answer that was written without a grammar; no text is left of it."""
    heard = hear(written, FAMILIES[label], tools=TOOLS, constrained=False, **more)
    assert heard.text.strip() == "", f"left as text: {heard.text!r}"
    assert heard.finish == "tool_calls"
    return [(name, json.loads(arguments)) for name, arguments in heard.calls]


def xml(**values: str) -> str:
    lines = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function=upd>\n{lines}</function>\n</tool_call>"


# ---------------------------------------------------------------- calls of every spelling


HARMONY = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>"
WRITTEN = [
    ("PA-01 harmony's call is a call", "harmony", HARMONY),
    ("PA-16 without its constraint", "harmony", "<|channel|>commentary to=functions.now<|message|>{}<|call|>"),
    ("PA-16 with spaces", "harmony", "<|channel|>commentary  to=functions.now  json<|message|>{}<|call|>"),
    ("PA-16 in the role", "harmony", " to=functions.now<|channel|>commentary json<|message|>{}<|call|>"),
    (
        "PA-02 a Kimi id of another shape",
        "kimi k2",
        f"{KIMI}functions_now_1<|tool_call_argument_begin|>{{}}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    ("PA-05 Mistral's named call", "mistral named", "[TOOL_CALLS]now[ARGS]{}"),
    ("PA-05 Mistral's list", "mistral array", '[TOOL_CALLS][{"name":"now","arguments":{}}]'),
    ("PA-19 spaces and newlines", "json_tags", '<tool_call>\n\n {"name": "now",\n "arguments": {} }\n\n</tool_call>\n'),
    ("PA-19 compact", "json_tags", '<tool_call>{"name":"now","arguments":{}}</tool_call>'),
    ("PA-23 without its opening tag", "qwen_xml", "<function=now>\n</function>\n</tool_call>"),
    ("FR-07 with an end of turn", "json_tags", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call><|im_end|>'),
]


@pytest.mark.parametrize(("label", "written"), [case[1:] for case in WRITTEN], ids=[case[0] for case in WRITTEN])
def test_a_call_is_understood_as_models_write_it(label: str, written: str) -> None:
    assert read(label, written) == [("now", {})]


def test_pa05_a_list_of_calls_is_several_calls() -> None:
    both = '[TOOL_CALLS][{"name":"now","arguments":{}},{"name":"now","arguments":{}}]'
    assert read("mistral array", both) == [("now", {}), ("now", {})]


def test_pa06_braces_and_quotes_in_gemmas_strings_stay_as_they_are() -> None:
    written = '<|tool_call>call:note{text:<|"|>a{b}, "c": <d><|"|>}<tool_call|>'
    assert read("gemma4", written) == [("note", {"text": 'a{b}, "c": <d>'})]


def test_pa08_glms_calls_are_no_json() -> None:
    family = FAMILIES["glm 4.7"]
    values = {"id": 7, "note": "x", "tags": ["a", "b"]}
    assert read("glm 4.7", family.write([("upd", values)])) == [("upd", values)]


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_pa20_white_space_between_and_after_calls_is_nobodys_text(family: Family) -> None:
    calls = [("now", {})] * (2 if family.many else 1)
    heard = hear(family.write(calls) + "\n", family, constrained=False)
    assert (heard.text.strip(), len(heard.calls)) == ("", len(calls))


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_white_space_after_a_call_demands_no_further_one(family: Family, choice: str) -> None:
    prompt = compose(family.voice, request(choice, TOOLS))
    matcher = LLMatcher(family.tokenizer.grammar_view, prompt.grammar, log_level=0)
    assert matcher.consume_tokens(family.tokenizer.encode(family.write([("now", {})])))
    assert matcher.is_accepting()
    after = family.tokenizer.encode("\n")
    if matcher.validate_tokens(after) == len(after):
        assert matcher.consume_tokens(after)
        assert matcher.is_accepting()


# ---------------------------------------------------------------- broken and foreign calls


BROKEN = [
    ("PA-03 only the marker", "json_tags", "<tool_call>"),
    ("PA-03 cut in the name", "json_tags", '<tool_call>\n{"name": "no'),
    ("PA-14 no JSON", "json_tags", "<tool_call>\nnow()\n</tool_call>"),
    ("PA-12 an unknown name", "json_tags", '<tool_call>\n{"name": "evil", "arguments": {}}\n</tool_call>'),
    ("PA-12 no recipient", "harmony", "<|channel|>commentary<|message|>{}<|end|>"),
    ("PA-14 broken XML", "qwen_xml", "<tool_call>\n<function=now\n</tool_call>"),
    ("PA-14 broken arguments", "mistral named", "[TOOL_CALLS]now[ARGS]{oops"),
    ("PA-14 a fence without an end", "deepseek v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"),
]


@pytest.mark.parametrize(("label", "written"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_what_is_no_call_ends_the_answer_without_one(label: str, written: str, reason: Any) -> None:
    heard = hear(written, FAMILIES[label], tools=TOOLS, constrained=False, reason=reason)
    assert heard.calls == []
    assert heard.finish == reason


def test_pa12_prose_before_a_call_is_text() -> None:
    heard = hear("I will look.\n" + PLAIN.write([("now", {})]), constrained=False)
    assert (heard.text, heard.calls) == ("I will look.", [("now", "{}")])


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_pa09_pa10_the_familys_own_markup_in_a_value_is_kept(family: Family) -> None:
    tokenizer = family.tokenizer
    marks = [*(opens.marker.text for opens in family.voice.dialect.opens), *family.markup]
    for text in marks:
        if any(tokenizer.is_special(token) for token in tokenizer.encode(text)):
            continue  # as a whole it is the marker; test_families spells it in ordinary tokens
        values = {"text": f"see {text} here"}
        written = family.write([("note", values)])
        if values["text"] not in written and json.dumps(values["text"])[1:-1] not in written:
            continue  # this family's writer cannot tell its own marker from the value's
        heard = hear(written, family)
        assert [json.loads(arguments) for _, arguments in heard.calls] == [values], text


def test_pa10_code_with_closing_tags_is_kept_whole() -> None:
    text = "see </parameter> here\nand </function> too, <parameter=x>"
    written = f"<tool_call>\n<function=note>\n<parameter=text>\n{text}\n</parameter>\n</function>\n</tool_call>"
    assert read("qwen_xml", written) == [("note", {"text": text})]


# ---------------------------------------------------------------- templates and descriptions


async def test_pa07_pa22_a_template_without_tools_still_forces_a_call() -> None:
    family = FAMILIES["json_tags, plain text"]
    assert "tool" not in (family.template or "")
    prompt = shown(family, tools=[NOW], tool_choice="required")
    assert '"now"' in prompt, "the tools are described where the template shows none"
    choice = await ask(node(family), tools=[NOW], tool_choice="required")
    assert calls_of(choice)


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_pa15_a_description_may_hold_any_text(family: Family) -> None:
    odd = "\"} <|im_end|> {{7919*7907}} {% raw %} \u0000 'x' </tools> <tool_call> \ud7ff 🐢"
    tool = function("now", {"type": "object", "properties": {}}, description=odd)
    assert "62615533" not in shown(family, tools=[tool], tool_choice="now"), "a template ran in the template"


async def test_pa13_errors_are_told_under_one_key() -> None:
    async with client_of(says("OK")) as client:
        for fields in ({"tool_choice": "required"}, {"tools": [{"type": "function"}]}, {"tools": 3}):
            response = await client.with_options(max_retries=0)._client.post(
                f"{client.base_url}chat/completions", json=asked(**fields)
            )
            body = response.json()
            assert response.status_code == 400
            assert set(body) == {"error"}
            assert {"message", "type", "param", "code"} <= set(body["error"])


# ---------------------------------------------------------------- types


TYPES = [
    ("TY-01 an integer is one", {"id": "7"}, {"id": 7}),
    ("TY-03 JSON in a string stays text", {"id": "1", "note": '{"a":1}'}, {"id": 1, "note": '{"a":1}'}),
    ("TY-04 null in a string stays text", {"id": "1", "note": "null"}, {"id": 1, "note": "null"}),
    ("TY-04 Python's True is true", {"id": "1", "flag": "True"}, {"id": 1, "flag": True}),
    ("TY-05 Python's quotes are understood", {"id": "1", "meta": "{'a': 1}"}, {"id": 1, "meta": {"a": 1}}),
    ("TY-06 a list is no string", {"id": "1", "tags": '["x"]'}, {"id": 1, "tags": ["x"]}),
    ("PA-09 two tags", {"id": "1", "tags": '["a","b"]'}, {"id": 1, "tags": ["a", "b"]}),
    ("TY-08 a nullable string is a string", {"id": "1", "maybe": "12"}, {"id": 1, "maybe": "12"}),
    ("TY-08 and null where it says so", {"id": "1", "maybe": "null"}, {"id": 1, "maybe": None}),
    ("TY-10 one newline is markup, the others text", {"id": "1", "note": "\nx\n"}, {"id": 1, "note": "\nx\n"}),
]


@pytest.mark.parametrize(("written", "values"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_a_value_without_quotes_has_the_type_that_its_schema_says(written: dict[str, str], values: Any) -> None:
    found = read("qwen_xml", xml(**written))
    assert found == [("upd", values)]
    assert [type(value) for value in found[0][1].values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize("label", ["qwen_xml", "glm 4.7", "minimax m2", "deepseek dsml", "gemma4"])
async def test_ty07_typed_values_are_constrained_where_a_call_is_forced(label: str) -> None:
    family = FAMILIES[label]
    for kind in ("prose", "random", "digits"):
        choice = await ask(node(family, kind), tools=[function("upd", BOUNDED)], tool_choice="upd", max_tokens=600)
        (call,) = choice.message.tool_calls
        assert type(json.loads(call.function.arguments)["id"]) is int
