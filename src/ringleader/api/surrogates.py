"""Halves of characters that JSON can spell and UTF-8 cannot: replaced in prose, refused where they would bind.

A model's answer is UTF-8. What it is held to is never rewritten in silence.
"""

from __future__ import annotations

import re
from typing import Literal

from ringleader.errors import BadRequest
from ringleader.values import Json

# The fields whose text an answer is held to, and the keywords in them that only explain.
BINDING = ("tools", "functions", "response_format", "output_config", "output_format", "format")
PROSE = ("description", "title", "$comment", "default", "examples")
NAMING = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # their keys are names
DATA = ("enum", "const")
PATH_CHARS_MAX = 200

_LONE = re.compile("[\ud800-\udfff]")
Keys = Literal["keywords", "names", "data"]


def mended(body: dict[str, Json]) -> dict[str, Json]:
    """The body (which nests no deeper than a recursion may) with U+FFFD for each lone surrogate.

    Raises:
        BadRequest: one stands in a schema, a grammar or a tool's name, where it would bind the answer; names its place.
    """
    for field in BINDING:
        _refuse(body.get(field), field, "keywords")
    return {_replaced(key): _replaced(value) for key, value in body.items()}


def _replaced(value: Json) -> Json:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replaced(each) for each in value]
    if isinstance(value, dict):
        return {_replaced(key): _replaced(each) for key, each in value.items()}
    return value


def _refuse(value: Json, path: str, keys: Keys) -> None:
    """Pass if nothing that binds at or below `path` has one. `keys` says what an object's keys are there."""
    if isinstance(value, str) and _LONE.search(value):
        raise _unwritable(path)
    if isinstance(value, list):
        for n, each in enumerate(value):
            _refuse(each, f"{path}[{n}]", keys)
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        if _LONE.search(key):
            raise _unwritable(path)
        if keys != "keywords" or key not in PROSE:
            _refuse(each, f"{path}.{key}", _below(key, keys))


def _below(key: str, keys: Keys) -> Keys:
    if keys == "data" or (keys == "keywords" and key in DATA):
        return "data"
    return "names" if keys == "keywords" and key in NAMING else "keywords"


def _unwritable(path: str) -> BadRequest:
    shown = path if len(path) <= PATH_CHARS_MAX else path[: PATH_CHARS_MAX - 3] + "..."
    what = "it has a lone surrogate (half a character, like \\ud83d), which no answer can hold: UTF-8 has none"
    return BadRequest(f"Invalid '{shown}': {what}. Write the whole character, or take it out.", param=shown)
