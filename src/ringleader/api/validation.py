"""A body to one of the pydantic models that stand at the doors, and their complaints in OpenAI's words.

The words name the field by its path and say what was expected; every API's error body carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ringleader.api.body import json_type
from ringleader.errors import BadRequest
from ringleader.values import Json

W = TypeVar("W", bound="Wire")


class Wire(BaseModel):
    """Strict (no "1" for 1, no true for 1). Extra fields are let through here; each door judges those it refuses."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


def parse(wire: type[W], body: Json, at: tuple[int | str, ...] = ()) -> W:
    """`body` as a `wire`; it stands at the path `at` of the request.

    Raises:
        BadRequest: the first field that is missing, of a wrong type or out of range, by its path.
    """
    try:
        return wire.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    loc = (*at, *first["loc"])
    raise _complaint(first["type"], loc, first.get("input"), first.get("ctx") or {}, first["msg"])


def path_of(loc: Sequence[int | str]) -> str:
    """A field's path as OpenAI writes it: `messages.[1].role`, but `tools[0].function.name`."""
    dot = "." if loc and loc[0] == "messages" else ""
    steps = (f"{dot}[{step}]" if isinstance(step, int) else f".{step}" for step in loc)
    return "".join(steps).removeprefix(".")


_EITHER = {
    "content": "a string or an array of text parts",
    "output": "a string or an array of text parts",
    "stop": "a string or an array of up to 4 strings",
}
_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than_equal": ("below_min_value", ">=", "ge"),
    "greater_than": ("below_min_value", ">", "gt"),
    "less_than_equal": ("above_max_value", "<=", "le"),
    "less_than": ("above_max_value", "<", "lt"),
}


def _complaint(kind: str, loc: tuple[int | str, ...], got: Json, ctx: dict[str, Any], text: str) -> BadRequest:
    path = path_of(loc)
    if kind == "missing":
        return BadRequest(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
    if kind in _EXPECTED:
        expected = _EITHER.get(str(loc[-1]), _EXPECTED[kind]) if loc else "an object"
        message = f"Invalid type for '{path}': expected {expected}, but got {json_type(got)} instead."
        return BadRequest(message, param=path, code="invalid_type")
    if kind in _BOUNDS:
        code, sign, key = _BOUNDS[kind]
        number = "decimal" if isinstance(got, float) or isinstance(ctx[key], float) else "integer"
        message = f"Invalid '{path}': expected a value {sign} {ctx[key]:g}, but got {shown(got)} instead."
        return BadRequest(message, param=path, code=f"{number}_{code}")
    if kind == "string_pattern_mismatch":
        message = f"Invalid '{path}': string does not match pattern. Expected a string that matches '{ctx['pattern']}'."
        return BadRequest(message, param=path)
    if kind == "literal_error":
        message = f"Invalid value: {shown(got)} for '{path}'. Supported values are: {ctx['expected']}."
        return BadRequest(message, param=path)
    if kind in {"too_short", "string_too_short"}:
        what = "array" if kind == "too_short" else "string"
        message = f"Invalid '{path}': {what} too short. Expected at least {ctx['min_length']}."
        return BadRequest(message, param=path, code="empty_array" if what == "array" else "empty_string")
    if kind == "too_long":
        message = f"Invalid '{path}': too long. Expected at most {ctx['max_length']} entries."
        return BadRequest(message, param=path, code="array_above_max_length")
    return BadRequest(f"Invalid '{path}': {text}.", param=path)


def shown(value: Json) -> str:
    """`value` for an error message: short, whatever the client sent."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "an integer of hundreds of digits"
    text = repr(value)
    return text if len(text) <= 64 else text[:61] + "..."
