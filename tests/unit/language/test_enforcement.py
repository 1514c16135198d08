from __future__ import annotations

import json
import time

import pytest

from ringleader.language.enforcement import Check, enforce, violation
from ringleader.values import Json

WAY_OUT = "Or do otherwise."


def check(schema: Json) -> Check:
    return Check("the call of 'f'", "tools[0].function.parameters", schema)


def test_what_the_engine_enforces_leaves_nothing_to_check() -> None:
    made = enforce({"type": "array", "items": {"type": "integer"}}, strict=True, way_out=WAY_OUT)
    assert (made.lenient, made.left) == (False, ())


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "uniqueItems": True}, "the keyword 'uniqueItems' cannot be enforced"),
        ({"if": {}, "then": {}}, "the keywords 'if', 'then' cannot be enforced"),
        ({"type": "string", "format": "colour"}, "the format 'colour' is unknown here and says nothing"),
        ({"oneOf": [{}, {"type": "null"}]}, "the keyword 'oneOf' cannot be enforced where its branches overlap"),
    ],
)
def test_what_it_does_not_enforce_is_said_in_words_and_refused_to_the_strict(schema: Json, said: str) -> None:
    made = enforce(schema, strict=False, way_out=WAY_OUT)
    assert (made.lenient, made.left) == (True, (said,))
    with pytest.raises(ValueError, match=r"\. Or do otherwise\.$") as caught:
        enforce(schema, strict=True, way_out=WAY_OUT)
    assert str(caught.value).startswith(f"{said}. ")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strin"}, "Invalid type: strin. Correct the schema."),
        ({"type": "string", "pattern": "(a"}, "the pattern (a is not supported: unclosed group. Correct"),
        ({"patternProperties": {"(?=a)": {}}}, "the pattern (?=a) is not supported: look-around, "),
        ({"patternProperties": {"^x": {}}, "unevaluatedProperties": False}, "neither enforced nor checked. Take one"),
    ],
)
def test_what_leniency_cannot_help_is_refused_in_whole_sentences(schema: Json, said: str) -> None:
    with pytest.raises(ValueError, match=r"[.]") as caught:
        enforce(schema, strict=False, way_out=WAY_OUT)
    assert said in str(caught.value)
    assert "Or do otherwise" not in str(caught.value)


def test_a_long_reason_is_cut_between_words_and_the_next_sentence_stands_apart() -> None:
    with pytest.raises(ValueError, match=r" \.\.\. Correct the schema\.$"):
        enforce({"type": " strin" * 99}, strict=True, way_out=WAY_OUT)


def test_a_text_is_held_against_the_whole_schema() -> None:
    made = check({"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}})
    assert violation(made, '{"x": [1, 2]}') is None
    found = violation(made, '{"x": [1, 1]}')
    assert found == (
        "the call of 'f' does not match tools[0].function.parameters at $.x: [1, 1] has non-unique elements"
    )
    assert violation(made, "[1, ") == "the call of 'f' is not valid JSON as tools[0].function.parameters wants it"
    assert violation(None, "anything") is None


# What Zod writes for an e-mail address.
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def test_a_pattern_with_look_around_is_checked_and_what_stands_beside_it_is_enforced() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "format": "email", "pattern": EMAIL}}}
    made = enforce(schema, strict=False, way_out=WAY_OUT)
    assert made.left == (f"the pattern {EMAIL} cannot be enforced",)
    assert made.schema["properties"] == {"to": {"type": "string", "format": "email"}}
    assert violation(check(schema), '{"to": "ada@example.com"}') is None
    assert "$.to" in (violation(check(schema), '{"to": "a..da@example.com"}') or "")
    with pytest.raises(ValueError, match=r"look-around, .* is not supported\. Or do otherwise\."):
        enforce(schema, strict=True, way_out=WAY_OUT)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\bfoo\b", "foo bar", "foobar"),
        (r"^(a|b)\Bx$", "ax", "a x"),
        (r"(?=x)[[\b]|\bx", "x", "y"),
    ],
)
def test_a_pattern_with_word_boundaries_is_checked_too(pattern: str, good: str, bad: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    made = enforce(schema, strict=False, way_out=WAY_OUT)
    assert made.left == (f"the pattern {pattern} cannot be enforced",)
    assert violation(check(schema), json.dumps(good)) is None
    assert "does not match" in (violation(check(schema), json.dumps(bad)) or "")
    with pytest.raises(ValueError, match=r"is not supported.* Or do otherwise\.$"):
        enforce(schema, strict=True, way_out=WAY_OUT)


def test_a_broken_pattern_is_named_whole_whatever_stands_in_it() -> None:
    with pytest.raises(ValueError, match=r"^the pattern \^\(a\|b\$ is not supported: unclosed group\. Correct"):
        enforce({"pattern": "^(a|b$"}, strict=False, way_out=WAY_OUT)
    with pytest.raises(
        ValueError, match=r"the pattern \\b\(a\|b\) is not supported: word boundaries cannot be enforced"
    ):
        enforce({"pattern": r"\b(a|b)"}, strict=True, way_out=WAY_OUT)


def test_a_pattern_with_look_around_that_takes_too_long_is_said_not_to_be_checked() -> None:
    begun = time.monotonic()
    slow = check({"type": "string", "pattern": r"^(?=a)(a|a?b?)*(a*)*(.?a)*\1$"})
    found = violation(slow, json.dumps("a" * 60 + "!" * 5))
    assert found is None or "could not be checked" in found or "does not match" in found
    assert time.monotonic() - begun < 2


def test_patterns_of_keys_are_checked_too() -> None:
    made = check(
        {"properties": {"y": {}}, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    )
    assert violation(made, '{"y": "any", "x1": 1}') is None
    assert "$.x1" in (violation(made, '{"x1": "a"}') or "")
    assert "'z' was unexpected" in (violation(made, '{"z": 1}') or "")
    free = check({"additionalProperties": {"type": "integer"}})
    assert violation(free, '{"a": 1}') is None
    assert "$.a" in (violation(free, '{"a": "b"}') or "")


def test_the_check_never_backtracks_fetches_or_fails() -> None:
    begun = time.monotonic()
    slow = check({"type": "string", "pattern": "^(a+)+$", "format": "x"})
    assert "does not match '^(a+)+$'" in (violation(slow, json.dumps("a" * 40 + "!")) or "")
    assert violation(slow, json.dumps("a" * 40)) is None
    keys = check({"patternProperties": {"^(a+)+$": False}})
    assert violation(keys, json.dumps({"a" * 40 + "!": 1})) is None
    assert violation(keys, json.dumps({"a" * 40: 1})) is not None
    assert time.monotonic() - begun < 1
    for schema in ({"$ref": "http://127.0.0.1:9/x"}, {"type": "thing"}, {"multipleOf": "x"}, {"pattern": "("}):
        found = violation(check(schema), '"x"')
        assert found is None or "could not be checked" in found
    assert len(violation(check({"const": "y" * 9999}), json.dumps("x" * 9999)) or "") < 400
