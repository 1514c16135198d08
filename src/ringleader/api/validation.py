"""A body to one of the pydantic models that stand at the doors, and their complaints in OpenAI's words.

The words name the field by its path and say what was expected; every API's error body carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from ringleader.api.body import json_type
from ringleader.api.complaints import Complaint, Path, complaint_of
from ringleader.errors import BadRequest
from ringleader.values import Json, shown

W = TypeVar("W", bound="Wire")


def _fail_fast(schema: Any) -> None:
    """Lists end at their first wrong entry: only one is told, and a body has room for millions."""
    if isinstance(schema, dict):
        if schema.get("type") == "list":
            schema["fail_fast"] = True
        for inner in schema.values():
            _fail_fast(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _fail_fast(inner)


class Wire(BaseModel):
    """Strict (no "1" for 1, no true for 1). Extra fields are let through here; each door judges those it refuses."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _fail_fast(schema)
        return schema


def parse(wire: type[W], body: Json, at: Path = ()) -> W:
    """`body` as a `wire`; it stands at the path `at` of the request.

    Raises:
        BadRequest: the first field that is missing, of a wrong type or out of range, by its path.
    """
    try:
        return wire.model_validate(body)
    except ValidationError as error:
        found = complaint_of(error, body, schema_of(wire))
    raise _in_words(replace(found, path=(*at, *found.path)))


@cache
def schema_of(wire: type[Wire]) -> dict[str, Any]:
    """The JSON schema of what a `wire` is read from."""
    return wire.model_json_schema()


def path_of(loc: Sequence[int | str]) -> str:
    """A field's path: `messages[1].role`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).removeprefix(".")


_BOUNDS = {
    "greater_than_equal": ("below_min_value", ">=", "ge"),
    "greater_than": ("below_min_value", ">", "gt"),
    "less_than_equal": ("above_max_value", "<=", "le"),
    "less_than": ("above_max_value", "<", "lt"),
}


def _in_words(found: Complaint) -> BadRequest:
    path, kind, got, limits = path_of(found.path), found.kind, found.got, found.limits
    if kind == "missing":
        return BadRequest(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
    if kind == "type":
        message = f"Invalid type for '{path}': expected {found.expected}, but got {json_type(got)} instead."
        return BadRequest(message, param=path, code="invalid_type")
    if kind == "value_error":
        return BadRequest(f"Invalid '{path}': expected {found.expected}, but got {shown(got)} instead.", param=path)
    if kind in _BOUNDS:
        code, sign, key = _BOUNDS[kind]
        number = "decimal" if isinstance(got, float) or isinstance(limits[key], float) else "integer"
        message = f"Invalid '{path}': expected a value {sign} {limits[key]:g}, but got {shown(got)} instead."
        return BadRequest(message, param=path, code=f"{number}_{code}")
    if kind == "string_pattern_mismatch":
        wanted = f"Expected a string that matches '{limits['pattern']}'."
        return BadRequest(f"Invalid '{path}': string does not match pattern. {wanted}", param=path)
    if kind == "literal_error":
        message = f"Invalid value: {shown(got)} for '{path}'. Supported values are: {limits['expected']}."
        return BadRequest(message, param=path)
    if kind in {"too_short", "string_too_short"}:
        what = "array" if kind == "too_short" else "string"
        message = f"Invalid '{path}': {what} too short. Expected at least {limits['min_length']}."
        return BadRequest(message, param=path, code="empty_array" if what == "array" else "empty_string")
    if kind == "too_long":
        message = f"Invalid '{path}': too long. Expected at most {limits['max_length']} entries."
        return BadRequest(message, param=path, code="array_above_max_length")
    return BadRequest(f"Invalid '{path}': {found.text}.", param=path)
