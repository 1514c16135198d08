from __future__ import annotations

import pytest

from ringleader.errors import BadRequest
from ringleader.language.call_rules import callables
from ringleader.language.custom import as_function
from ringleader.language.keywords import TUPLES
from ringleader.language.outgrowth import Probe
from ringleader.language.schema import bytes_view
from ringleader.language.tool_choice import normalise
from ringleader.values import CustomGrammar, Tool
from tests.unit.language.builders import NOW

VIEW = bytes_view()
UNIQUE = Tool("tag", "", {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}})
TOO_MUCH = "(.{0,2000}a.{0,2000}){2000}"


def test_only_permitted_tools_are_judged_and_each_once() -> None:
    tools = (NOW, UNIQUE, NOW)
    assert [rule.name for rule in callables(tools, normalise("auto", tools, True), Probe(VIEW)).rules] == ["now", "tag"]
    assert callables(tools, normalise("now", tools, True), Probe(VIEW)).warnings == ()
    assert callables(tools, normalise("none", tools, True), Probe(VIEW)).rules == ()


def test_what_is_left_is_checked_in_the_clients_own_schema_and_warned_of() -> None:
    tools = (NOW, UNIQUE)
    made = callables(tools, normalise("tag", tools, True), Probe(VIEW))
    assert made.checks["tag"].schema == UNIQUE.parameters
    assert made.checks["tag"].param == "tools[1].function.parameters"
    (warning,) = made.warnings
    assert warning == (
        "tools[1].function.parameters is not wholly enforced, each call of 'tag' is checked against it when it is "
        "whole: the keyword 'uniqueItems' cannot be enforced"
    )


@pytest.mark.parametrize(("syntax", "definition"), [("regex", TOO_MUCH), ("lark", f"start: A\nA: /{TOO_MUCH}/")])
def test_a_grammar_of_a_custom_tool_that_outgrows_the_engine_is_named_by_its_place(
    syntax: str, definition: str
) -> None:
    custom = Tool("run", kind="custom", grammar=CustomGrammar(syntax, definition))  # type: ignore[arg-type]  # of two
    tool = as_function(custom, "") if syntax == "regex" else custom
    with pytest.raises(BadRequest, match=r"Invalid grammar for custom tool 'run': .* outgrows") as caught:
        callables((NOW, tool), normalise("auto", (NOW, tool), True), Probe(VIEW))
    assert caught.value.param == "tools[1].custom.format.grammar.definition"
    assert caught.value.code == "grammar_too_complex"
    assert callables((NOW, tool), normalise("now", (NOW, tool), True), Probe(VIEW)).patterned == ()


HOPELESS = "^((a{1000}){1000}){1000}$"  # the engine gives up before any text


@pytest.mark.parametrize("strict", [True, None])
def test_a_pattern_that_no_text_can_begin_is_too_complex_and_named(strict: bool | None) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": HOPELESS}}, "required": ["x"]}
    tools = (Tool("f", "", schema, strict=strict),)
    with pytest.raises(BadRequest) as caught:
        callables(tools, normalise("auto", tools, True), Probe(VIEW))
    assert (caught.value.code, caught.value.param) == ("grammar_too_complex", "tools[0].function.parameters")
    assert f"'{HOPELESS}' outgrows what can be enforced, before any text" in str(caught.value)


def test_a_custom_tools_expression_stays_in_its_own_language() -> None:
    tool = as_function(Tool("run", kind="custom", grammar=CustomGrammar("regex", "[[:alpha:]&&[^a]]+")), "")
    (rule,) = callables((tool,), normalise("auto", (tool,), True), Probe(VIEW)).rules
    assert rule.schema["properties"]["input"]["pattern"] == "^(?:[[:alpha:]&&[^a]]+)$"


def test_an_older_drafts_tuple_is_enforced_and_told_of() -> None:
    pair = Tool("f", "", {"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "string"}]}}})
    made = callables((NOW, pair), normalise("auto", (NOW, pair), True), Probe(VIEW))
    assert made.checks == {}
    assert made.warnings == (f"tools[1].function.parameters: {TUPLES}",)
    assert "is read as 'prefixItems'" in TUPLES


def test_repeated_tools_leave_the_others_their_numbers() -> None:
    tools = (NOW, NOW, UNIQUE)
    made = callables(tools, normalise("auto", tools, True), Probe(VIEW))
    assert made.checks["tag"].param == "tools[2].function.parameters"
