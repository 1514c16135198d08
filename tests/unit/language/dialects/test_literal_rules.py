"""Schemas of every kind as literals: whatever the grammar lets a model write is read back and validates."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ringleader.language.prompt import compose, parser
from ringleader.values import Tool
from tests.unit.language.builders import collect, request
from tests.unit.language.dialects import families_gemma, families_pythonic
from tests.unit.language.dialects.family import Family
from tests.unit.language.walking import walk

FAMILIES: dict[str, Family] = {
    family.label: family
    for family in (*families_gemma.FAMILIES, *families_pythonic.FAMILIES)
    if family.label in {"gemma4", "function_gemma, plain text", "pythonic", "olmo3"}
}


def branch(kind: str, **properties: Any) -> dict[str, Any]:
    members = {"kind": {"const": kind}, **properties}
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
TREE = {
    "type": "object",
    "properties": {
        "v": {"type": "boolean"},
        "kids": {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["v"],
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "branches": {"op": {"oneOf": [branch("a", n=DIGIT), branch("b", ok={"type": "boolean"}), {"type": "null"}]}},
    "values": {"e": {"enum": ["x", "xy", 1, 10, True, None, [1, "a"], {"k": "v"}]}, "f": {"const": 3}},
    "lists": {
        "a": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": ["null", "boolean", "integer"], "maximum": 5},
        },
        "b": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "boolean"}},
        "c": {"type": "array", "items": False},
    },
    "either": {
        "b": {"anyOf": [{"type": "string", "pattern": "^[a-c]{2}$"}, {"type": "integer", "maximum": 5, "minimum": 1}]}
    },
    "recursion": {"c": {"$ref": "#/$defs/tree"}},
    "no plain spelling": {
        "o": {"type": "object", "properties": {"x": DIGIT}, "minProperties": 1},
        "p": {"type": "array", "prefixItems": [DIGIT, {"type": "boolean"}], "items": False, "minItems": 2},
        "q": {"allOf": [{"$ref": "#/$defs/word"}]},
    },
}


@pytest.mark.parametrize("label", FAMILIES)
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_may_be_written_validates(label: str, name: str) -> None:
    family, members = FAMILIES[label], SCHEMAS[name]
    definitions = {"tree": TREE, "word": {"type": "string", "enum": ["q", "r"]}}
    schema = {"type": "object", "properties": members, "required": list(members), "$defs": definitions}
    wish = request("required", (Tool("f", "", schema),), parallel=False)
    prompt = compose(family.voice, wish)
    for seed in range(8):
        answer = walk(family.tokenizer, prompt.grammar, seed, prompt.opening, family.endings)
        reader = parser(family.voice, prompt, wish)
        found = collect(reader.open(prompt.opening) + reader.feed(answer) + reader.finish("stop"))
        assert found.ended == [0], family.tokenizer.decode(answer)
        jsonschema.validate(json.loads(found.calls[0][1]), schema)


@pytest.mark.parametrize("label", FAMILIES)
def test_parameters_that_are_composed_are_one_of_their_shapes(label: str) -> None:
    family = FAMILIES[label]
    ways = [{"properties": {key: DIGIT}, "required": [key]} for key in ("p", "q")]
    schema = {"type": "object", "anyOf": ways}
    wish = request("required", (Tool("f", "", schema),), parallel=False)
    prompt = compose(family.voice, wish)
    seen = set()
    for seed in range(12):
        answer = walk(family.tokenizer, prompt.grammar, seed, prompt.opening, family.endings)
        reader = parser(family.voice, prompt, wish)
        arguments = json.loads(collect(reader.open(prompt.opening) + reader.feed(answer)).calls[0][1])
        jsonschema.validate(arguments, schema)
        seen.update(arguments)
    assert seen == {"p", "q"}
