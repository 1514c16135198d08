"""A schema's keywords as the drafts of JSON schema and careless clients differ in them: in one spelling, or refused.

What the grammar engine would misread, or refuse without saying what, is caught here by its keyword.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ringleader.language.recursion import is_pointer
from ringleader.values import Json, shown

# Where schemas stand in a schema: under a name each, in a list, or alone. Everything else is data.
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
ALONE = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else"),
)
COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
EXCLUSIVE = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_DRAFT = re.compile(r"https?://json-schema\.org/(draft-0[4-7]|draft/(?:2019-09|2020-12))/schema#?")
DRAFTS = '"https://json-schema.org/draft/2020-12/schema", or the name of draft 4, 6, 7 or 2019-09'
TUPLES = "an 'items' that is an array is read as 'prefixItems', as it is called since draft 2020-12"
POINTER_CHARS_MAX = 1000  # anchors in longer places are left to the engine


def normalised(schema: Mapping[str, Json]) -> dict[str, Json]:
    """The schema's copy in one spelling: counts are integers (2.0 is one), a `$ref` to an anchor is a pointer, bounds
    that exclude are numbers unless `$schema` names draft 4.

    Raises:
        ValueError: a keyword has a value that it cannot have; says which.
    """
    draft = _draft(schema["$schema"]) if "$schema" in schema else ""
    copy = _each(with_pointers(schema), lambda node: _plain(node, draft))
    assert isinstance(copy, dict)
    return {**copy, "$schema": draft} if draft else copy


def _draft(named: Json) -> str:
    """The draft's name as the engine knows it: without regard to http or https, and to a # at its end."""
    if not isinstance(named, str) or not (found := _DRAFT.fullmatch(named)):
        raise ValueError(f"its '$schema' is {shown(named)}, which is no known draft. Leave it out, or write {DRAFTS}.")
    scheme, mark = ("http", "#") if found[1].startswith("draft-") else ("https", "")
    return f"{scheme}://json-schema.org/{found[1]}/schema{mark}"


def has_tuples(schema: Mapping[str, Json]) -> bool:
    """Whether it is of a draft before 2020-12 that it does not name: some `items` is an array."""
    return "$schema" not in schema and any(isinstance(node.get("items"), list) for _, node in _nodes(schema))


def with_pointers(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema with a JSON pointer for each `$ref` to an anchor of its own. Itself where there is none, or where
    parts of it have names of their own (`$id`), which change what a pointer means."""
    places: dict[str, str | None] = {}
    for pointer, node in _nodes(schema):
        for anchor in _anchors(node):
            places[anchor] = None if anchor in places else pointer
        if isinstance(node.get("$id"), str) and not node["$id"].startswith("#") and pointer != "#":
            return schema
    if not places:
        return schema

    def pointed(node: Mapping[str, Json]) -> Mapping[str, Json]:
        reference = node.get("$ref")
        place = places.get(reference) if isinstance(reference, str) and not is_pointer(reference) else None
        return node if place is None else {**node, "$ref": place}

    copy = _each(schema, pointed)
    assert isinstance(copy, dict)
    return copy


def _anchors(node: Mapping[str, Json]) -> Iterator[str]:
    """The references that mean this node by its name."""
    if isinstance(anchor := node.get("$anchor"), str):
        yield f"#{anchor}"
    if isinstance(name := node.get("$id"), str) and name.startswith("#"):  # as drafts 6 and 7 spell it
        yield name


def _plain(node: Mapping[str, Json], draft: str) -> Mapping[str, Json]:
    made = dict(node)
    for key in ("anyOf", "oneOf", "type"):
        if made.get(key) == []:
            raise ValueError(f"its '{key}' is an empty list, which no value can meet.")
    for key in COUNTS:
        if key in made:
            made[key] = _count(key, made[key])
    for key, plain in EXCLUSIVE:
        if isinstance(made.get(key), bool) and "draft-04" not in draft:
            _exclude(made, key, plain)
    if isinstance(made.get("items"), list) and ("prefixItems" in made or "2020-12" in draft):
        raise ValueError("its 'items' is an array. In draft 2020-12 write 'prefixItems'.")
    return made


def _count(key: str, value: Json) -> int:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int) or whole < 0:
        raise ValueError(f"its '{key}' is {shown(value)}, but must be an integer that is not negative.")
    return whole


def _exclude(node: dict[str, Json], key: str, plain: str) -> None:
    """Draft 4's `exclusiveMinimum: true` beside a `minimum`, as all later drafts have it."""
    if not node.pop(key):
        return
    bound = node.pop(plain, None)
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise ValueError(f"its '{key}' is true without a '{plain}' that is a number. Write the bound: '{key}': 0.")
    node[key] = bound


# ---------------------------------------------------------------- the schemas in a schema


def _each(schema: Json, change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Json:
    """The schema with each schema in it changed, from the outside inwards."""
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = dict(change(schema))
    for key, value in copy.items():
        if key in NAMED and isinstance(value, Mapping):
            copy[key] = {name: _each(each, change) for name, each in value.items()}
        elif key in LISTED and isinstance(value, list):
            copy[key] = [_each(each, change) for each in value]
        elif key in ALONE:
            copy[key] = _each(value, change)
    return copy


def _nodes(schema: Json) -> Iterator[tuple[str | None, Mapping[str, Json]]]:
    """Each schema that is an object, with the pointer to it (None: it is too long)."""
    waiting: list[tuple[str | None, Json]] = [("#", schema)]
    while waiting:
        at, node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        yield at, node
        for key, value in node.items():
            if key in NAMED and isinstance(value, Mapping):
                waiting += [(_at(at, key, name), each) for name, each in value.items()]
            elif key in LISTED and isinstance(value, list):
                waiting += [(_at(at, key, str(n)), each) for n, each in enumerate(value)]
            elif key in ALONE:
                waiting.append((_at(at, key), value))


def _at(pointer: str | None, *steps: str) -> str | None:
    if pointer is None or len(pointer) + sum(map(len, steps)) > POINTER_CHARS_MAX:
        return None
    return "/".join((pointer, *(step.replace("~", "~0").replace("/", "~1") for step in steps)))
