"""Words between nodes to bytes and back: JSON, one key that names the word's kind."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ringleader.cluster.words import Beat, StartOrder, StopOrder, Word

_KINDS: dict[str, TypeAdapter[Any]] = {
    "beat": TypeAdapter(Beat),
    "start": TypeAdapter(StartOrder),
    "stop": TypeAdapter(StopOrder),
}
_NAMES: dict[type, str] = {Beat: "beat", StartOrder: "start", StopOrder: "stop"}


def to_bytes(word: Word) -> bytes:
    name = _NAMES[type(word)]
    return b'{"%s":%s}' % (name.encode(), _KINDS[name].dump_json(word))


def from_bytes(data: bytes) -> Word | None:
    """None for what is no word that this version knows; whoever sent it is told of in the log, not obeyed."""
    try:
        said = json.loads(data, parse_float=_finite, parse_constant=_finite)
        ((name, value),) = said.items()
        word: Word = _KINDS[name].validate_python(value)
        return word
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return None


def _finite(text: str) -> float:
    """Nothing that nodes tell each other is endless, or no number."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no measure")
    return value
