"""What is Llama's own: calls without any marker, and how they are told from text and from answers in JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.llama_json import llama_json
from ringleader.language.prompt import compose, parser, voice
from ringleader.values import ContentFormat, Json
from tests.unit.language.builders import NOTE, NOW, collect, request
from tests.unit.language.dialects.families_llama import SHOWN, TAG
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOKENIZER = tokenizer_with((TAG, "<|eom_id|>"), SHOWN)
DIALECT = llama_json(TOKENIZER)
VOICE = voice(TOKENIZER, 8192)
CALL = '{"name": "now", "parameters": {}}'


def is_legal(answer: str, text_schema: dict[str, Json] | None = None) -> bool:
    wish = request("auto", (NOW, NOTE))
    if text_schema is not None:
        wish = replace(wish, content=ContentFormat("json_schema", "n", text_schema))
    matcher = LLMatcher(VOICE.tokenizer.grammar_view, compose(VOICE, wish).grammar, log_level=0)
    ids = TOKENIZER.encode(answer)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize(
    "answer",
    [
        CALL,
        f"\n{CALL}",
        f"{TAG}{CALL}",
        f"I look.{TAG}{CALL}",
        '{"type": "function", "name": "now", "parameters": {}}',
        '{ "name": "now", "parameters": {}}',
        '{\n    "name": "now", "parameters": {}}',
    ],
)
def test_a_call_begins_in_any_of_the_ways_that_these_models_have(answer: str) -> None:
    assert is_legal(answer)
    assert hear(DIALECT, TOKENIZER, answer, (NOW,)).calls == [["now", "{}"]]


@pytest.mark.parametrize("between", ["; ", "", "\n", ", ", " ;\n"])
def test_several_objects_are_several_calls(between: str) -> None:
    found = hear(DIALECT, TOKENIZER, CALL + between + CALL, (NOW,))
    assert (found.calls, found.ended, found.text) == ([["now", "{}"]] * 2, [0, 1], "")


def test_an_object_in_the_middle_of_text_is_text() -> None:
    for answer in (f"Use {CALL}", f"```\n{CALL}\n```"):
        assert is_legal(answer)
        assert hear(DIALECT, TOKENIZER, answer, (NOW,)).text == answer


def test_text_that_begins_as_a_call_does_can_only_be_one() -> None:
    for answer in ('{"name": "Ada"}', '{"name" is a key', '{"name": "now"}'):
        assert not is_legal(answer)
    assert is_legal('{"title": "Ada"}')


def test_arguments_under_the_other_name_are_arguments() -> None:
    found = hear(DIALECT, TOKENIZER, '{"name": "note", "arguments": {"text": "x"}}', (NOTE,))
    assert [(name, json.loads(text)) for name, text in found.calls] == [("note", {"text": "x"})]


def test_an_answer_of_a_form_may_have_a_name_of_its_own() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    wish = replace(request("auto", (NOW, NOTE)), content=ContentFormat("json_schema", "n", schema))
    prompt = compose(VOICE, wish)
    for name in ("Ada", "now", "nowhere"):
        answer = json.dumps({"name": name, "age": 36})
        assert is_legal(answer, schema)
        reader = parser(VOICE, prompt, wish)
        found = collect(reader.feed(TOKENIZER.encode(answer)) + reader.finish("stop"))
        assert (found.text, found.calls) == (answer, [])
    assert is_legal(CALL, schema)


def test_a_call_without_arguments_is_no_call_until_it_says_so() -> None:
    for answer in ('{"name": "now"', '{"name": "now", "age": 3}', '{"name": "nobody", "parameters": {}}'):
        assert hear(DIALECT, TOKENIZER, answer, (NOW,)).text == answer
