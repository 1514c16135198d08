from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from ringleader.language.outgrowth import SCREENS_MAX, TRIALS_MAX, Probe, has_patterns
from ringleader.language.schema import WRITTEN, bytes_view, lark_of
from ringleader.values import CustomGrammar, Json, Tool

VIEW = bytes_view()
TOO_MUCH = "(.{0,2000}a.{0,2000}){2000}"  # for single bytes; a real vocabulary breaks (.{0,50}a){50}


def string(pattern: str) -> Json:
    return {"type": "string", "pattern": pattern}


@pytest.mark.parametrize("pattern", [TOO_MUCH, "^(?:.{0,500}a.{0,500}){500}$"])
def test_a_pattern_that_some_text_breaks_is_found_with_such_a_text(pattern: str) -> None:
    found = Probe(VIEW).schema({"type": "object", "properties": {"x": {"items": string(pattern)}}})
    assert found is not None
    assert found.pattern == pattern
    assert "Make it simpler" in str(found)
    matcher = LLMatcher(VIEW, lark_of(json.dumps({"x-guidance": WRITTEN, **string(pattern)})), log_level=0)
    for byte in b'"' + found.text.encode():
        assert matcher.consume_token(byte)
        matcher.compute_bitmask()
    assert matcher.is_error(), "the text that is named must be one"


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a|b)*a(a|b){14}$",
        "(.*a){20}",
        "^[a-z]{1,5000}$",
        "a{1,50000}",
        "^.{1,5000}$",
        r"^[\s\S]{1,20000}$",
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        r"^(\+\d{1,2}\s)?\(?\d{3}\)?[\s.-]?\d{3}[\s.-]?\d{4}$",
        "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        r"^\p{Lu}\p{Ll}+( \p{Lu}\p{Ll}+){0,5}$",
        r"^.{0,300}\.pdf$",
    ],
)
def test_a_pattern_that_the_engine_bears_is_let_through(pattern: str) -> None:
    assert Probe(VIEW).schema(string(pattern)) is None


def test_patterns_of_keys_and_of_clients_grammars_are_tried_too() -> None:
    assert Probe(VIEW).schema({"patternProperties": {TOO_MUCH: {}}}) is not None
    raw = Tool("t", kind="custom", grammar=CustomGrammar("lark", f"start: A\nA: /{TOO_MUCH}/"))
    assert Probe(VIEW).raw(raw) is not None
    fine = Tool("t", kind="custom", grammar=CustomGrammar("lark", 'start: "a" B+\nB: /[a-z]+ /'))
    assert Probe(VIEW).raw(fine) is None


def test_what_is_a_value_or_a_name_is_no_pattern() -> None:
    schema = {
        "properties": {"pattern": {"const": {"pattern": TOO_MUCH}, "default": {"pattern": TOO_MUCH}}},
        "enum": [{"pattern": TOO_MUCH}],
    }
    assert not has_patterns(schema)
    assert Probe(VIEW).schema(schema) is None
    assert has_patterns({"properties": {"x": string("a")}})


def test_what_one_request_may_cost_is_bounded() -> None:
    probe = Probe(VIEW)
    broken = [f"(.{{0,2000}}a.{{0,2000}}){{{2000 + n}}}" for n in range(TRIALS_MAX + 1)]
    assert [probe.schema(string(pattern)) is None for pattern in broken] == [False] * TRIALS_MAX + [True]
    many = {"properties": {f"p{n}": string(f"^x{n}$") for n in range(SCREENS_MAX)}}
    spent = Probe(VIEW)
    assert spent.schema(many) is None
    assert spent.schema(string(TOO_MUCH)) is None
