"""What strings may still need, read from grammars."""

from __future__ import annotations

import json

from llguidance import LLMatcher

from ringleader.shard.remainders import FORMS_MAX, forms
from ringleader.values import Json


def of_schema(schema: Json) -> list[str]:
    return [text for form in forms(f"start: %json {json.dumps(schema)}") for text in texts(form.remainders)]


def texts(remainders: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]) -> list[str]:
    """Each remainder by its single characters; a class of several is a dot."""
    return ["".join(chr(c[0][0]) if c[0][0] == c[-1][1] else "." for c in each) for each in remainders]


def test_a_pattern_is_followed_from_each_of_its_places() -> None:
    assert of_schema({"pattern": r"^[0-9]*\.pdf$"}) == ["f", "df", "pdf", "\\.pdf".replace("\\", "")]


def test_a_length_is_counted_together_with_the_pattern() -> None:
    assert of_schema({"pattern": "^[a-z]*!$", "minLength": 3}) == ["!", ".!", "..!"]
    assert of_schema({"minLength": 2}) == [".", ".."]
    assert of_schema({"maxLength": 5}) == []


def test_all_of_several_patterns_is_needed() -> None:
    assert of_schema({"allOf": [{"pattern": "^.*x.$"}, {"pattern": "^[a-z]+$"}]})[:2] == [".", "x."]


def test_schemas_are_searched_to_their_depth_names_of_keys_too() -> None:
    deep = {"properties": {"a": {"items": {"anyOf": [{"pattern": "^k*z$"}]}}}, "patternProperties": {"^-*y$": {}}}
    assert sorted(of_schema(deep)) == ["y", "z"]


def test_properties_may_be_named_as_keywords_are() -> None:
    names = ("format", "pattern", "minLength", "maxLength", "allOf", "enum", "type", "const")
    for schema in ({"type": "string"}, {"pattern": "^k*z$"}, {"enum": ["a"]}):
        held = {"type": "object", "properties": dict.fromkeys(names, schema)}
        assert of_schema(held) == (["z"] if schema == {"pattern": "^k*z$"} else [])


def test_formats_of_the_engine_are_known() -> None:
    assert ".@." in of_schema({"format": "email"}) and "::" in of_schema({"format": "ipv6"})
    assert of_schema({"format": "regex"}) == []


def test_terminals_of_lark_are_read_with_what_is_joined_to_them() -> None:
    (form,) = forms("start: body\nbody[lazy]: /([a-z]*!)<\\/p>/ & /(?s:.{1,}<\\/p>)/ & ~/(no)<\\/p>/")
    assert not form.quoted and "!</p>" in texts(form.remainders) and ">" in texts(form.remainders)


def test_grammars_are_read_in_llguidances_own_form_too() -> None:
    grammar = str(LLMatcher.grammar_from_lark('start: %json {"type": "string", "pattern": "^k*z$"}'))
    assert [texts(form.remainders) for form in forms(grammar)] == [["z"]]
    assert [texts(form.remainders) for form in forms(str(LLMatcher.grammar_from_json_schema({"pattern": "^k*z$"})))]


def test_what_cannot_be_read_is_left_out() -> None:
    assert of_schema({"anyOf": [{"pattern": "^(?=a)$"}, {"pattern": "^k*z$"}, {"pattern": 3}]}) == ["z"]
    assert forms("start: %json {broken") == ()
    assert of_schema({"pattern": "^(?=a)$", "minLength": 1}) == ["."]  # the other limit still holds


def test_their_number_is_bounded() -> None:
    many = {"anyOf": [{"pattern": f"^k*{n}$"} for n in range(3 * FORMS_MAX)]}
    assert len(forms(f"start: %json {json.dumps(many)}")) == FORMS_MAX
