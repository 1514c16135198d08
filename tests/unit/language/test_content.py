"""The form of an answer's text: what its grammar lets through, what is refused, what is checked afterwards."""

from __future__ import annotations

import json
import random
import time

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.content import ContentRule, content_rule
from ringleader.language.enforcement import violation
from ringleader.language.schema import bytes_view, lark_of
from ringleader.values import ContentFormat, Json

PERSON: Json = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
BOTH: Json = {"allOf": [{"type": "object", "properties": {"x": {"minimum": 10}}}, {"required": ["x"]}]}
CHAIN: Json = {
    "$ref": "#/$defs/t",
    "$defs": {"t": {"type": "object", "properties": {"next": {"$ref": "#/$defs/t"}}}},
}


def rule(schema: Json, strict: bool | None = None) -> ContentRule:
    made = content_rule(ContentFormat("json_schema", "n", schema, strict))
    assert made is not None
    return made


def matcher(made: ContentRule) -> LLMatcher:
    return LLMatcher(bytes_view(), lark_of(made.schema), log_level=0)


def accepts(made: ContentRule, text: str) -> bool:
    found, ids = matcher(made), list(text.encode())
    return bool(found.try_consume_tokens(ids) == len(ids) and found.is_accepting())


def refusal(schema: Json, strict: bool | None = None) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        rule(schema, strict)
    return caught.value


def written(made: ContentRule, likes: str, limit: int) -> str:
    """What a model writes that prefers the characters of `likes` wherever they are legal, and never stops by itself."""
    found, text = matcher(made), bytearray()
    while len(text) < limit and not found.is_stopped():
        legal = [token for token in range(256) if found.compute_bitmask()[token // 8] >> token % 8 & 1]
        if not legal:
            break
        liked = [token for token in legal if chr(token) in likes]
        text.append(liked[0] if liked else legal[0])
        found.consume_token(text[-1])
    return text.decode(errors="replace")


def test_free_text_has_no_rule() -> None:
    assert content_rule(None) is None


def test_a_json_object_is_any_object_and_nothing_else() -> None:
    made = content_rule(ContentFormat("json_object"))
    assert made is not None
    for text in ("{}", '{"a": 1, "b": [true, null, {"c": "\\n"}]}'):
        assert accepts(made, text)
    for text in ("", "[]", "5", '"{}"', '{"a": 1', '{"a":  1}', "{ }", "\n{}", "{}\n"):
        assert not accepts(made, text), text


def test_the_text_is_held_to_the_schema_and_closed_to_other_keys() -> None:
    made = rule(PERSON)
    for text in ('{"name": "Ada"}', '{"name": "Ada", "age": 36}'):
        assert accepts(made, text)
    for text in ("{}", '{"age": 36}', '{"name": "Ada", "x": 1}', '{"name": "Ada", "age": -1}', '{"name": "123456789"}'):
        assert not accepts(made, text), text
    assert made.warnings == ()
    assert made.check is None


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, ["5", "-7"], ["5.5", '"5"']),
        ({"type": "array", "items": {"type": "boolean"}}, ["[]", "[true, false]"], ["[1]", "true"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ['"x"', "null"], ["5"]),
        ({"enum": ["red", 5]}, ['"red"', "5"], ['"blue"']),
        (BOTH, ['{"x": 10}'], ['{"x": 9}', "{}"]),
        (CHAIN, ['{"next": {}}'], ["5"]),
        ({"type": "object", "required": ["a"], "properties": {"b": {"type": "null"}}}, ['{"a": 1}'], ["{}"]),
        ({"type": "string", "pattern": "^a+$", "maxLength": 3}, ['"aaa"'], ['"aaaa"', '"b"']),
        ({}, ["5", "null", '{"a": []}'], ["", "x"]),
        (None, ["5", "{}"], ["x"]),
    ],
)
def test_schemas_of_any_type_are_taken(schema: Json, good: list[str], bad: list[str]) -> None:
    made = rule(schema)
    assert [text for text in good if not accepts(made, text)] == []
    assert [text for text in bad if accepts(made, text)] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "("},
        {"type": "object", "patternProperties": {"(?=a)b": {}}},
        {"type": "thing"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.com/schema.json"},
        {"$ref": "#"},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"enum": []},
        {"type": "string", "minLength": 3, "enum": ["ab"]},
    ],
)
def test_a_schema_that_nothing_can_be_made_of_is_refused_however_strict(schema: Json) -> None:
    for strict in (None, True, False):
        error = refusal(schema, strict)
        assert error.param == "response_format"
        assert str(error).startswith("Invalid schema for response_format 'n': ")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "colour"},
        {"type": "string", "pattern": "^(?=a)"},
        {"not": {"type": "null"}},
        {"type": "array", "uniqueItems": True},
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        {"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]},
    ],
)
def test_what_cannot_be_enforced_is_refused_unless_the_client_is_not_strict(schema: Json) -> None:
    for strict in (None, True):
        assert "set 'strict' to false" in str(refusal(schema, strict))
    made = rule(schema, strict=False)
    assert len(made.warnings) == 1
    assert made.warnings[0].startswith("response_format is not wholly enforced, the answer is checked against it")
    assert made.check is not None
    assert made.check.schema == schema


def test_what_was_left_out_of_the_grammar_is_checked_afterwards() -> None:
    made = rule({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, strict=False)
    assert not accepts(made, '["a"]')
    assert violation(made.check, "[1, 2]") is None
    found = violation(made.check, "[1, 1]")
    assert found == "the answer does not match response_format at $: [1, 1] has non-unique elements"
    assert rule(PERSON).check is None


@pytest.mark.parametrize("likes", ["\n \t", "0", "9", "\n0"])
def test_no_model_loops_in_whitespace_or_digits(likes: str) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}},
        "required": ["n", "m"],
    }
    text = written(rule(schema), likes, 300)
    assert len(text) < 70
    jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize("more", [True, {"type": "string"}])
def test_a_declared_key_cannot_be_passed_off_as_a_further_one_by_escapes(more: Json) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": more}
    rule = content_rule(ContentFormat("json_schema", "s", schema, True))
    assert rule is not None
    matcher = LLMatcher(bytes_view(), lark_of(rule.schema), log_level=0)
    for text in ('{"\\u0061": "x"}', '{"a": 1, "\\u0061": "x"}', '{"a": "x"}'):
        assert matcher.validate_tokens(list(text.encode())) < len(text)
    for text in ('{"a": 1}', '{"a": 1, "b": "x"}', '{"é\\n": "\\t\\"x\\\\"}'):
        assert matcher.validate_tokens(list(text.encode())) == len(text.encode())


def test_declared_bounds_of_integers_stay_as_they_are() -> None:
    assert accepts(rule({"type": "integer", "minimum": 0}), "9" * 30)
    assert accepts(rule({"enum": [{"type": "integer"}]}), '{"type": "integer"}')
    assert not accepts(rule({"type": "integer"}), "1" * 19)


def test_integers_that_the_engine_does_not_hold_are_refused_or_bounded() -> None:
    for large in ({"enum": [2**53 + 1]}, {"const": {"a": [-(10**18) - 7]}}, {"minimum": 2**60}, {"maximum": -(2**60)}):
        assert "2**53" in str(refusal({"type": "object", "properties": {"n": large}}, strict=False))
    made = rule({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1})
    assert accepts(made, str(2**53))
    assert accepts(made, str(-(2**53)))
    assert not accepts(made, str(2**53 + 1))
    assert accepts(rule({"const": 2**53}), str(2**53))


def test_random_answers_are_valid() -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "items": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "maxItems": 3},
            "inner": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        },
        "required": ["kind", "inner"],
    }
    made = rule(schema)
    for seed in range(40):
        chance, found, text = random.Random(seed), matcher(made), bytearray()
        while not found.is_stopped():
            mask = found.compute_bitmask()
            legal = [token for token in range(257) if mask[token // 8] >> token % 8 & 1]
            token = chance.choice(legal)
            found.consume_token(token)
            if token == 256:
                break
            text.append(token)
        jsonschema.validate(json.loads(text), schema)


def test_a_pattern_that_no_text_can_begin_is_too_complex() -> None:
    error = refusal(
        {"type": "array", "items": {"pattern": "^((a{1000}){1000}){1000}$", "type": "string"}, "minItems": 1}
    )
    assert (error.code, error.param) == ("grammar_too_complex", "response_format.json_schema.schema")


def test_older_spellings_are_read() -> None:
    made = rule({"type": "array", "items": [{"type": "string", "minLength": 2.0}], "minItems": 1})
    assert accepts(made, '["ab"]')
    assert not accepts(made, '["a"]')
    (warning,) = made.warnings
    assert warning.startswith("response_format.json_schema.schema: an 'items' that is an array")
    assert "'$schema' is 'foo'" in str(refusal({"$schema": "foo"}))


def test_huge_and_deep_schemas_are_refused_at_once() -> None:
    deep: Json = {"type": "string"}
    for _ in range(2000):
        deep = {"type": "array", "items": deep}
    assert "deeper" in str(refusal(deep))
    assert "characters" in str(refusal({"enum": ["x" * 300_000]}))
    begun = time.monotonic()
    for pattern in ("[a-z]{1,100000}", "^(a+)+$"):
        rule({"type": "string", "pattern": pattern})
    assert time.monotonic() - begun < 2
