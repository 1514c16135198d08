"""What pydantic finds wrong with a body, as one complaint about one field: where its client wrote it, and what may
stand there. Nothing of how our models are made is told: no class, no branch of a union, no word of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ringleader.api.body import json_type
from ringleader.values import Json

Path = tuple[int | str, ...]
Schema = Mapping[str, Any]

# What a value of each type is called, alone and among others. What is null may be left out, so null is never advised.
_NOUNS: Mapping[str, tuple[str, str]] = {
    "string": ("a string", "strings"),
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "boolean": ("a boolean", "booleans"),
    "object": ("an object", "objects"),
}
# By pydantic's kinds of errors; those in here are errors of type.
_WANTED: Mapping[str, str] = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """`kind` is "type", or pydantic's own name, whose `limits` those of pydantic's context are.

    `expected` is what may stand at `path`, in words ("a string or an array of strings"), if it is the type or the
    value that is wrong; `text` is pydantic's sentence.
    """

    path: Path
    kind: str
    got: Json
    expected: str = ""
    text: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)


def complaint_of(error: ValidationError, body: Json, schema: Schema) -> Complaint:
    """The first complaint of `error`, which was raised for `body`; `schema` is the JSON schema of what was expected."""
    details = error.errors(include_url=False)
    found = [(_path(details[0], body), details[0])]
    for each in details[1:]:  # the other branches of the same union
        path = _path(each, body)
        if path[: len(found[0][0])] != found[0][0]:
            break
        found.append((path, each))
    # Of the branches, the one whose type was right got furthest: further down, or else past the type.
    path, chosen = max(found, key=lambda each: (len(each[0]), each[1]["type"] not in _WANTED))
    kind, got, limits = chosen["type"], chosen["input"], chosen.get("ctx", {})
    if kind in _WANTED:
        own = [_WANTED[each["type"]] for at, each in found if at == path and each["type"] in _WANTED]
        return Complaint(path, "type", got, _expected(path, got, own, schema), chosen["msg"])
    expected = str(limits["error"]) if kind == "value_error" else ""  # our validators say what they expect
    return Complaint(path, kind, got, expected, chosen["msg"], limits)


def _path(error: ErrorDetails, body: Json) -> Path:
    """Where in `body` the error is. Its location has steps that are not there: branches of unions, and entries of
    arrays that were made of a single value. What is there leads to the value that the error is about."""
    loc, given = error["loc"], error["input"]
    last: Path = ()
    if error["type"] == "missing":  # then that is the object in which it is missing
        loc, last = loc[:-1], loc[-1:]
    best: Path | None = None
    seen: set[tuple[int, int]] = set()
    ways: list[tuple[int, Json, Path]] = [(0, body, ())]
    while ways:
        at, value, path = ways.pop()
        if (at, id(value)) in seen:
            continue
        seen.add((at, id(value)))
        if at == len(loc):
            best = path if best is None else best
            if value is given:
                return path + last
            continue
        ways.append((at + 1, value, path))
        if _has(value, loc[at]):  # looked at first
            ways.append((at + 1, value[loc[at]], (*path, loc[at])))
    return (best or ()) + last


def _has(value: Json, step: int | str) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


# ---------------------------------------------------------------- what is expected, in words


def _expected(path: Path, got: Json, own: Sequence[str], schema: Schema) -> str:
    """By the schema, which knows also what is made into something else before it is read. Where it allows the type
    that came (but not there, as in a prompt that begins with a token id), by the error itself."""
    definitions = schema.get("$defs", {})
    nouns = [noun for each in _at(schema, path, definitions) for noun in _nouns(each, definitions)]
    if not nouns or json_type(got) in nouns:
        nouns = list(own)
    *others, last = dict.fromkeys(nouns)
    return f"{', '.join(others)} or {last}" if others else last


def _branches(schema: Schema, definitions: Schema) -> Iterator[Schema]:
    """`schema`, or all that it leaves the choice of."""
    if reference := schema.get("$ref"):
        yield from _branches(definitions[reference.rsplit("/", 1)[1]], definitions)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _branches(each, definitions)
    else:
        yield schema


def _at(schema: Schema, path: Path, definitions: Schema) -> list[Schema]:
    """The schemas of what may stand at `path`."""
    here = [schema]
    for step in path:
        branches = [branch for each in here for branch in _branches(each, definitions)]
        here = [below for branch in branches for below in _below(branch, step, definitions)]
    return here


def _below(schema: Schema, step: int | str, definitions: Schema) -> Iterator[Schema]:
    inside = schema.get("items") if schema.get("type") == "array" else None
    if isinstance(step, int):
        if inside:
            yield inside
    elif inside:  # one entry in place of an array of one
        for branch in _branches(inside, definitions):
            if branch.get("type") != "array":
                yield from _below(branch, step, definitions)
    elif step in schema.get("properties", {}):
        yield schema["properties"][step]
    elif isinstance(more := schema.get("additionalProperties"), Mapping):
        yield more


def _nouns(schema: Schema, definitions: Schema, *, several: bool = False) -> Iterator[str]:
    for branch in _branches(schema, definitions):
        kind = str(branch.get("type"))
        if kind == "array":
            head = "arrays" if several else "an array"
            most = f"up to {branch['maxItems']} " if "maxItems" in branch else ""
            inside = list(_nouns(branch.get("items", {}), definitions, several=True))
            yield from (f"{head} of {most}{each}" for each in inside) if inside else (head,)
        elif kind in _NOUNS:
            yield _NOUNS[kind][several]
