"""What a parameter's schema says about a value that is written as bare text: its types, enum and limits.

Resolves local `$ref`s; a schema is a stranger's data, so nothing here trusts a keyword's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.language.recursion import listed
from ringleader.values import Json

TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
STEPS_MAX = 32  # of `$ref`s and compositions; more is a circle
WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
LIMITS = ("pattern", "format", "minLength", "maxLength")  # of a string
SHAPES_MAX = 32  # ways that composed parameters are told apart


def resolved(schema: Json, root: Json) -> Json:
    """The schema that `schema` means once its local references are followed."""
    for _ in range(STEPS_MAX):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        node = root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, Mapping) else None
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**node, **rest} if isinstance(node, Mapping) else rest
    return {}


def types(schema: Json, root: Json, steps: int = STEPS_MAX) -> frozenset[str]:
    """The JSON types that a value may have; all where nothing is said."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or steps == 0:
        return TYPES
    found = TYPES
    kind = schema.get("type")
    if isinstance(kind, str | list):
        found &= _with_integers(frozenset(k for k in ([kind] if isinstance(kind, str) else kind) if k in TYPES))
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        found &= frozenset(type_of(value) for value in values)
    for key in ("anyOf", "oneOf"):
        if branches := listed(schema.get(key)):
            found &= frozenset[str]().union(*(types(branch, root, steps - 1) for branch in branches))
    for part in listed(schema.get("allOf")):
        found &= types(part, root, steps - 1)
    return found


def _with_integers(found: frozenset[str]) -> frozenset[str]:
    return found | {"integer"} if "number" in found else found


def type_of(value: Json) -> str:
    """The JSON type of a decoded value; "integer" for 3 and 3.0."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names: dict[type, str] = {float: "number", str: "string", type(None): "null", list: "array"}
    return names.get(type(value), "object")


def only(schema: Json, root: Json, kept: frozenset[str], steps: int = STEPS_MAX) -> Json:
    """The schema of those of its values that have one of the `kept` types."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or steps == 0:
        return {"type": sorted(kept)}
    copy = dict(schema)
    for key in ("anyOf", "oneOf"):
        if branches := listed(schema.get(key)):
            copy[key] = [only(branch, root, kept, steps - 1) for branch in branches if types(branch, root) & kept]
    if isinstance(schema.get("enum"), list):
        copy["enum"] = [value for value in schema["enum"] if type_of(value) in kept]
    elif "anyOf" not in copy and "oneOf" not in copy and "const" not in schema:
        kinds = types(schema, root) & kept
        copy["type"] = sorted(kinds - {"integer"} if "number" in kinds else kinds)
    return copy


def words_of(schema: Json, root: Json) -> list[str]:
    """Which of true, false and null a value may be."""
    return [word for word, value in WORDS.items() if _allows(schema, root, value, STEPS_MAX)]


def _allows(schema: Json, root: Json, value: bool | None, steps: int) -> bool:
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or steps == 0:
        return schema is not False
    if type_of(value) not in types(schema, root):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and not any(found is value for found in values):
        return False
    branches = [listed(schema.get(key)) for key in ("anyOf", "oneOf")]
    return all(any(_allows(b, root, value, steps - 1) for b in some) for some in branches if some)


def strings_of(schema: Json, root: Json, steps: int = STEPS_MAX) -> list[Mapping[str, Json]]:
    """The ways in which a value may be a string: plain schemas with enum, const, pattern and lengths."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or steps == 0:
        return [{}]
    parts, schema = listed(schema.get("allOf")), {key: value for key, value in schema.items() if key != "allOf"}
    for part in (resolved(part, root) for part in parts):
        schema = _both(schema, part) if isinstance(part, Mapping) else schema
    branches = listed(schema.get("anyOf")) or listed(schema.get("oneOf"))
    if branches:
        stringy = [branch for branch in branches if "string" in types(branch, root)]
        outer = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        return [_both(outer, way) for branch in stringy for way in strings_of(branch, root, steps - 1)]
    return [schema] if "string" in types(schema, root) else []


def _both(one: Mapping[str, Json], other: Mapping[str, Json]) -> Mapping[str, Json]:
    """Both schemas of a string as one. What both limit, `allOf` limits a second time."""
    again = {key: one[key] for key in LIMITS if key in one and other.get(key, one[key]) != one[key]}
    further = [*listed(one.get("allOf")), *listed(other.get("allOf")), *([again] if again else [])]
    return {**one, **other, **({"allOf": further} if further else {})}


@dataclass(frozen=True, slots=True)
class Shape:
    """One set of parameters that a call may have: name, schema, and whether it must be there, in order."""

    parameters: tuple[tuple[str, Json, bool], ...]


def shapes(root: Json) -> list[Shape]:
    """The sets of parameters that a tool's schema allows: several where it composes objects."""
    return [_shape(merged) for merged in _alternatives(root, root, STEPS_MAX)[:SHAPES_MAX]]


def rooted_in(schema: Json, root: Json, places: tuple[str, ...]) -> dict[str, Json] | None:
    """The schema that `schema` means, as a root of its own; None where it is none, or where a reference in it does
    not begin with one of `places`."""
    part = resolved(schema, root)
    if not isinstance(part, Mapping) or not all(ref.startswith(places) for ref in _references(part)):
        return None
    shared = {key: root[key] for key in ("$defs", "definitions") if isinstance(root, Mapping) and key in root}
    return {**shared, **part}


def _references(node: Json) -> list[str]:
    if isinstance(node, Mapping):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in _references(value)]
    return [ref for item in node for ref in _references(item)] if isinstance(node, list) else []


def _shape(schema: Mapping[str, Json]) -> Shape:
    properties = schema.get("properties")
    required = {name for name in listed(schema.get("required")) if isinstance(name, str)}
    named = properties if isinstance(properties, Mapping) else {}
    known = [(name, value, name in required) for name, value in named.items() if value is not False]
    return Shape((*known, *((name, {}, True) for name in sorted(required - set(named)))))


def _alternatives(schema: Json, root: Json, steps: int) -> list[dict[str, Json]]:
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or steps == 0:
        return [{}]
    ways: list[dict[str, Json]] = [{k: v for k, v in schema.items() if k not in ("allOf", "anyOf", "oneOf")}]
    for part in listed(schema.get("allOf")):
        ways = [_joined(way, other) for way in ways for other in _alternatives(part, root, steps - 1)]
    for key in ("anyOf", "oneOf"):
        if branches := listed(schema.get(key)):
            others = [way for branch in branches for way in _alternatives(branch, root, steps - 1)]
            ways = [_joined(way, other) for way in ways for other in others[:SHAPES_MAX]]
    return ways[:SHAPES_MAX]


def _joined(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    first, second = one.get("properties"), other.get("properties")
    both: dict[str, Json] = dict(first) if isinstance(first, Mapping) else {}
    for name, schema in (second if isinstance(second, Mapping) else {}).items():
        both[name] = {"allOf": [both[name], schema]} if name in both else schema
    return {"properties": both, "required": [*listed(one.get("required")), *listed(other.get("required"))]}
