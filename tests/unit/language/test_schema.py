from __future__ import annotations

import json
import time

import pytest

from ringleader.errors import BadRequest
from ringleader.language.schema import OPTIONAL_MAX, check_tools, closed, grammar_text, judge
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOW, WEATHER


def nested(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_objects_are_closed_wherever_they_are_declared() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "one": point,
            "many": {"type": "array", "items": point},
            "either": {"anyOf": [point, {"type": "null"}]},
        },
        "$defs": {"point": point},
    }
    shut = point | {"additionalProperties": False}
    copy = closed(schema)
    assert copy["additionalProperties"] is False
    assert copy["properties"] == {
        "one": shut,
        "many": {"type": "array", "items": shut},
        "either": {"anyOf": [shut, {"type": "null"}]},
    }
    assert copy["$defs"] == {"point": shut}
    assert "additionalProperties" not in schema  # the client's own schema is left as it is


def test_what_the_client_left_open_on_purpose_stays_open() -> None:
    free = {"type": "object"}
    copy = closed({"properties": {"map": free}, "additionalProperties": {"type": "string"}})
    assert copy["additionalProperties"] == {"type": "string"}
    assert copy["properties"]["map"] == free


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_tool_without_parameters_takes_an_empty_object(parameters: Json) -> None:
    assert closed(parameters) == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    "composed",
    [
        {
            "allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}],
            "required": ["a", "b"],
        },
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "required": ["a", "b"]},
        {
            "properties": {"a": {"type": "string"}},
            "anyOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}, {"required": ["a"]}],
        },
    ],
)
def test_closing_never_forbids_what_another_part_demands(composed: Json) -> None:
    defs = {"a": {"properties": {"a": {"type": "string"}}}, "b": {"properties": {"b": {"type": "string"}}}}
    copy = closed({**composed, "$defs": defs})
    assert '"additionalProperties": false' not in json.dumps({k: v for k, v in copy.items() if k != "$defs"})
    assert judge(grammar_text(copy, lenient=False)).error is None


def test_branches_that_only_require_keys_leave_the_object_closed() -> None:
    copy = closed({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert copy["additionalProperties"] is False


@pytest.mark.parametrize("kind", ["string", "array", ["string", "null"], 7])
def test_parameters_that_are_no_object_are_refused(kind: Json) -> None:
    with pytest.raises(ValueError, match="must have the type 'object'"):
        closed({"type": kind})


@pytest.mark.parametrize(
    "part",
    [
        {"enum": []},
        {"type": "integer", "minimum": 9, "maximum": 1},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "object", "properties": {f"p{n}": {} for n in range(OPTIONAL_MAX + 1)}},
    ],
)
def test_a_part_that_can_never_be_met_or_built_is_refused_even_where_it_is_optional(part: Json) -> None:
    with pytest.raises(ValueError, match=r"no value can meet|optional properties"):
        closed({"type": "object", "properties": {"x": {"type": "array", "items": part}}})


def test_a_definition_that_is_used_only_by_an_optional_key_is_judged_too() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}},
    }
    assert "recurs for ever" in (judge(grammar_text(closed(schema), lenient=False)).error or "")


def test_a_lenient_verdict_says_what_is_left_out() -> None:
    schema = closed({"properties": {"x": {"not": {"type": "string"}}}})
    assert judge(grammar_text(schema, lenient=False)).error == "the keyword 'not' cannot be enforced."
    lenient = judge(grammar_text(schema, lenient=True))
    assert lenient.error is None
    assert "not" in lenient.warnings[0]


def test_equal_tools_are_taken_once_and_different_ones_of_one_name_are_refused() -> None:
    assert check_tools((WEATHER, NOW, WEATHER)) == (WEATHER, NOW)
    with pytest.raises(BadRequest, match="two different tools are named 'now'") as caught:
        check_tools((NOW, Tool("now", "Another one.")))
    assert caught.value.param == "tools[1].function.name"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (nested(2000), "nests deeper"),
        ({"properties": {f"p{n}": {"description": "x" * 1000} for n in range(1000)}}, "characters; the limit is"),
        ([], "not an object but list"),
        ("object", "not an object but str"),
        (True, "not an object but bool"),
    ],
)
def test_a_schema_that_could_do_harm_is_refused_before_anything_reads_it(parameters: Json, said: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(BadRequest, match=said) as caught:
        check_tools((NOW, Tool("bad", "", parameters)))
    assert caught.value.param == "tools[1].function.parameters"
    assert caught.value.code == "invalid_function_parameters"
    assert time.perf_counter() - begun < 2


def test_many_tools_are_bounded_together() -> None:
    parameters = {"properties": {"x": {"description": "x" * 150_000}}}
    with pytest.raises(BadRequest, match="send fewer tools"):
        check_tools(tuple(Tool(f"t{n}", "", parameters) for n in range(8)))
