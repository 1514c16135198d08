"""What is MiniMax M3's own: tags in tags, what of a schema they cannot say, and reasoning that it declines."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.language.prompt import compose, parser, voice
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOTE, Collected, collect, request
from tests.unit.language.dialects.families_minimax_m3 import ENDINGS, NAMESPACE, SHOWN, TOKENS, block
from tests.unit.language.vocabulary import tokenizer_with
from tests.unit.language.walking import walk

TOKENIZER = tokenizer_with(TOKENS, SHOWN)
VOICE = voice(TOKENIZER, 8192)


def order(**properties: Json) -> Tool:
    return Tool("order", "", {"type": "object", "properties": properties, "required": list(properties)})


def heard(text: str, tool: Tool, choice: str = "auto") -> Collected:
    wish = request(choice, (tool,))
    prompt = compose(VOICE, wish)
    ids = TOKENIZER.encode(text)
    matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
    assert matcher.try_consume_tokens(ids) == len(ids), TOKENIZER.decode(ids[: matcher.try_consume_tokens(ids)])
    assert matcher.is_accepting()
    return collect(parser(VOICE, prompt, wish).feed(ids))


ITEMS: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["sku", "tags"],
    },
}


def test_objects_are_tags_in_tags_and_lists_are_items() -> None:
    values: dict[str, Any] = {"items": [{"sku": "a\n<b>", "tags": ["x", ""]}, {"sku": "", "tags": []}], "free": []}
    text = block([("order", values)])
    assert f"<items>{NAMESPACE}<item>{NAMESPACE}<sku>a\n<b>{NAMESPACE}</sku>{NAMESPACE}<tags>" in text
    found = heard(text, order(items=ITEMS, free=ITEMS))
    assert [json.loads(arguments) for _, arguments in found.calls] == [values]


def test_what_tags_cannot_say_of_a_value_is_said_in_json() -> None:
    free: Json = {"type": "object", "additionalProperties": {"type": "integer"}}
    either: Json = {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}
    odd: Json = {"type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"]}
    values = {"free": {"k": 1}, "either": [1, 2], "odd": {"a b": 3}}
    tags = "".join(f"{NAMESPACE}<{key}>{json.dumps(value)}{NAMESPACE}</{key}>" for key, value in values.items())
    text = (
        f'{NAMESPACE}<tool_call>\n{NAMESPACE}<invoke name="order">{tags}{NAMESPACE}</invoke>\n{NAMESPACE}</tool_call>'
    )
    found = heard(text, order(free=free, either=either, odd=odd))
    assert [json.loads(arguments) for _, arguments in found.calls] == [values]


@pytest.mark.parametrize("seed", range(12))
def test_a_schema_that_contains_itself_is_kept_to(seed: int) -> None:
    tree: Json = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 3}, "under": {"$ref": "#/$defs/trees"}},
        "required": ["name"],
    }
    trees: Json = {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}
    schema: Json = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/tree"}},
        "required": ["root"],
        "$defs": {"tree": tree, "trees": trees},
    }
    wish = request("required", (Tool("grow", "", schema),), parallel=False)
    prompt = compose(VOICE, wish)
    reader = parser(VOICE, prompt, wish)
    endings = (*ENDINGS, *(f"{NAMESPACE}</{tag}>" for tag in ("name", "under", "root")))
    answer = walk(TOKENIZER, prompt.grammar, seed, prompt.opening, endings)
    found = collect(reader.open(prompt.opening) + reader.feed(answer) + reader.finish("stop"))
    assert found.ended == [0]
    jsonschema.validate(json.loads(found.calls[0][1]), schema)


@pytest.mark.parametrize(("least", "most"), [(0, 0), (2, 2), (1, 300)])
def test_a_list_has_as_many_items_as_it_may(least: int, most: int) -> None:
    numbers: Json = {"type": "array", "items": {"type": "integer"}, "minItems": least, "maxItems": most}
    prompt = compose(VOICE, request("required", (order(numbers=numbers),)))
    for count in (0, 1, 2, 3, 301):
        ids = TOKENIZER.encode(block([("order", {"numbers": [1] * count})]))
        matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
        assert (matcher.try_consume_tokens(ids) == len(ids)) == (least <= count <= most), count


def test_a_model_that_declines_to_reason_says_so_and_nobody_sees_it() -> None:
    assert heard("</mm:think>Hello.", NOTE).text == "Hello."
    called = heard("</mm:think>" + block([("note", {"text": "x"})]), NOTE, "required")
    assert (called.text, called.reasoning, called.ended) == ("", "", [0])


def test_a_vocabulary_without_the_token_spells_it() -> None:
    plain = tokenizer_with((), SHOWN)
    speaker, wish = voice(plain, 8192), request("auto", (NOTE, order(items=ITEMS)))
    prompt = compose(speaker, wish)
    note = {"text": f"a {NAMESPACE}</tool_call> {NAMESPACE}<b>"}
    values: dict[str, Any] = {"items": [{"sku": "x", "tags": ["y"]}]}
    ids = plain.encode("So: " + block([("note", note), ("order", values)]))
    matcher = LLMatcher(plain.grammar_view, prompt.grammar, log_level=0)
    assert matcher.try_consume_tokens(ids) == len(ids)
    found = collect(parser(speaker, prompt, wish).feed(ids))
    assert (found.text, [json.loads(arguments) for _, arguments in found.calls]) == ("So:", [note, values])


def test_it_is_found_by_its_vocabulary_alone() -> None:
    assert voice(tokenizer_with(TOKENS, None), 100).dialect.name == "minimax_m3"
