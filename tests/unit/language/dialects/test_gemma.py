"""What is Gemma's own: quotes that are tokens, sorted keys, thinking in a channel, and calls in lax spelling."""

from __future__ import annotations

import json

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.gemma import function_gemma, gemma4
from ringleader.language.prompt import compose, voice
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOTE, NOW, request
from tests.unit.language.dialects.families_gemma import FUNCTION_GEMMA, GEMMA4, SHOWN
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOKENIZER = tokenizer_with(GEMMA4, SHOWN + "{# <|channel>thought #}")
DIALECT = gemma4(TOKENIZER)
VOICE = voice(TOKENIZER, 8192)
Q = '<|"|>'


def called(arguments: str, name: str = "f") -> str:
    return f"<|tool_call>call:{name}{{{arguments}}}<tool_call|>"


def is_legal(answer: str, tools: tuple[Tool, ...], choice: Json = "required") -> bool:
    matcher = LLMatcher(TOKENIZER.grammar_view, compose(VOICE, request(choice, tools)).grammar, log_level=0)
    ids = TOKENIZER.encode(answer)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, [f"{Q}{Q}", f'{Q}a"{{b}}, c:\n{Q}'], ["x", '"x"']),
        ({"enum": ["a", "b", None]}, [f"{Q}a{Q}", "null", "None"], [f"{Q}c{Q}", f"{Q}{Q}"]),
        ({"type": "string", "maxLength": 2}, [f"{Q}ab{Q}"], [f"{Q}abc{Q}"]),
        ({"type": "string", "pattern": "^a+$"}, [f"{Q}aa{Q}"], [f"{Q}ab{Q}"]),
        ({"type": "boolean"}, ["true"], ["True", "1"]),
        ({"type": "object"}, ["{}", f"{{a:{Q}x{Q},b:[1,{{c:null}}]}}"], [f"{{{Q}a{Q}:1}}", '{"a":1}']),
        ({"type": "array", "items": {"type": "number"}}, ["[]", "[1,2.5]"], ["[1, 2]", f"[{Q}1{Q}]"]),
        (
            {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
            ['{"a": "x"}'],
            ["{}"],
        ),
    ],
)
def test_values_are_spelled_by_their_schema(schema: dict[str, Json], good: list[str], bad: list[str]) -> None:
    tool = Tool("f", "", {"type": "object", "properties": {"v": schema}, "required": ["v"]})
    for text in good:
        assert is_legal(called(f"v:{text}"), (tool,)), text
        ((_, arguments),) = hear(DIALECT, TOKENIZER, called(f"v:{text}"), (tool,)).calls
        jsonschema.validate(json.loads(arguments), tool.parameters)
    for text in bad:
        assert not is_legal(called(f"v:{text}"), (tool,)), text


def test_keys_are_sorted_as_the_templates_sort_them() -> None:
    inner = {"type": "object", "properties": {"z": {"type": "integer"}, "y": {"type": "integer"}}}
    tool = Tool("f", "", {"type": "object", "properties": {"b": {"type": "integer"}, "A": inner}})
    assert is_legal(called("A:{y:1,z:2},b:3"), (tool,))
    assert is_legal(called("b:3"), (tool,))
    assert not is_legal(called("b:3,A:{}"), (tool,))
    assert not is_legal(called("A:{z:2,y:1}"), (tool,))


def test_keys_that_cannot_stand_bare_are_quoted() -> None:
    tool = Tool("f", "", {"type": "object", "properties": {"a:b": {"type": "integer"}}, "required": ["a:b"]})
    answer = called(f"{Q}a:b{Q}:1")
    assert is_legal(answer, (tool,))
    assert hear(DIALECT, TOKENIZER, answer, (tool,)).calls == [["f", '{"a:b": 1}']]


def test_thinking_is_a_channel_with_a_name_and_may_come_before_text_or_a_call() -> None:
    thought = "<|channel>thought\nHm.\n<channel|>"
    for answer, text, calls in ((f"{thought}Yes.", "Yes.", 0), (thought + called("", "now"), "", 1)):
        assert is_legal(answer, (NOW,), "auto")
        found = hear(DIALECT, TOKENIZER, answer, (NOW,))
        assert (found.reasoning, found.text, len(found.ended)) == ("Hm.", text, calls)


def test_a_call_in_lax_spelling_is_read() -> None:
    answer = f"<|tool_call> call: note {{ {Q}text{Q} : {Q}x{Q} , }} <tool_call|>"
    assert hear(DIALECT, TOKENIZER, answer, (NOTE,)).calls == [["note", '{"text": "x"}']]
    tokenizer = tokenizer_with(FUNCTION_GEMMA)
    answer = "<start_function_call>note{text:New York}<end_function_call>"
    assert hear(function_gemma(tokenizer), tokenizer, answer, (NOTE,)).calls == [["note", '{"text": "New York"}']]


@pytest.mark.parametrize("inside", ["call:evil{}", "call now", "say:now{}", "{}", "call:now{"])
def test_what_is_no_call_ends_no_call(inside: str) -> None:
    found = hear(DIALECT, TOKENIZER, f"<|tool_call>{inside}<tool_call|>", (NOW,))
    assert found.ended == []
