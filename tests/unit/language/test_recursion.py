from __future__ import annotations

import time

import pytest

from ringleader.language.recursion import deeper_than, endless
from ringleader.values import Json


def _nested(levels: int) -> Json:
    value: Json = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"$ref": "#"}, "#"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "#/$defs/"),
        ({"properties": {"next": {"$ref": "#"}}, "required": ["next"]}, "#"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}},
            "#/$defs/a",
        ),
        ({"allOf": [{"$ref": "#/allOf/0"}]}, "#/allOf/0"),
        ({"$ref": "#/prefixItems/1", "prefixItems": [{"$ref": "#/prefixItems/9"}, {}]}, None),
        ({"$ref": "#name"}, None),
        ({"properties": {"next": {"$ref": "#"}}}, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}, None),
        ({"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}}, None),
        ({"$ref": "#/$defs/x~1y", "$defs": {"x/y": {"type": "string"}}}, None),
    ],
)
def test_recursion_that_never_ends_is_found(schema: Json, found: str | None) -> None:
    named = endless(schema)
    assert (named or "").startswith(found) if found else named is None


def test_a_long_chain_of_definitions_is_proven_finite_quickly() -> None:
    defs: Json = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)} | {"d2000": {"type": "string"}}
    begun = time.perf_counter()
    assert endless({"$ref": "#/$defs/d0", "$defs": defs}) is None
    assert time.perf_counter() - begun < 1


def test_depth_is_measured_without_recursion() -> None:
    assert deeper_than(_nested(2000), 100)
    assert not deeper_than({"a": [1, {"b": 2}]}, 4)
    assert deeper_than({"a": [1, {"b": 2}]}, 3)
