"""What an answer's text must be (`response_format`), as a rule of its grammar and as a check of what that leaves out.

The rule writes JSON with no free whitespace, so that no model can loop in it; integers end after 18 digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from llguidance import LLMatcher
from referencing import Registry
from referencing.exceptions import Unresolvable

from ringleader.errors import BadRequest
from ringleader.language.patterns import ecma
from ringleader.language.recursion import children, deeper_than
from ringleader.language.schema import (
    DEPTH_MAX,
    SCHEMA_CHARS_MAX,
    bytes_view,
    closed_value,
    grammar_text,
    judge,
    lark_of,
)
from ringleader.values import ContentFormat, Json

PARAM = "response_format"
ANY_OBJECT: Mapping[str, Json] = {"type": "object"}
# Without a bound a model that likes a digit writes it until its tokens end. No program reads longer integers exactly.
INTEGER_MAX = 10**18 - 1
REASON_CHARS_MAX = 200
# What jsonschema raises on a value or a schema that is beyond it. The grammar has enforced most by then.
BEYOND = (ArithmeticError, RecursionError, ValueError, TypeError, Unresolvable, jsonschema.exceptions.UnknownType)


@dataclass(frozen=True, slots=True)
class ContentRule:
    """`schema` is the JSON text that follows `%json`. `check` is the client's schema where `schema` does not
    enforce all of it; `warnings` says what it leaves out."""

    schema: str
    warnings: tuple[str, ...] = ()
    check: Mapping[str, Json] | None = None


def content_rule(wanted: ContentFormat | None) -> ContentRule | None:
    """The rule for an answer's text, or None for free text.

    Raises:
        BadRequest: a schema that is none, or that cannot be enforced and is not `strict: false`.
    """
    if wanted is None:
        return None
    if wanted.kind == "json_object":
        return ContentRule(grammar_text(ANY_OBJECT, lenient=False))
    schema = {} if wanted.schema is None else wanted.schema
    _guard(schema, wanted.name)
    try:
        closed = _with_bounds(closed_value({key: value for key, value in schema.items() if key != "x-guidance"}))
    except ValueError as reason:
        raise _invalid(wanted.name, str(reason)) from None
    assert isinstance(closed, dict)
    text = grammar_text(closed, lenient=False)
    verdict = judge(text)
    if verdict.error is None:
        return ContentRule(text)
    lenient_text = grammar_text(closed, lenient=True)
    lenient = judge(lenient_text)
    if lenient.error is not None:
        raise _invalid(wanted.name, f"{lenient.error} Correct the schema.")
    if wanted.strict is not False:
        advice = "Take that out of the schema, or set 'strict' to false: it is then checked, not enforced."
        raise _invalid(wanted.name, f"{verdict.error} {advice}")
    warning = f"{PARAM} is not wholly enforced: {'; '.join(lenient.warnings)}"
    return ContentRule(lenient_text, (warning,), schema)


def violation(rule: ContentRule | None, text: str) -> str | None:
    """Why `text`, a whole answer, is not what was asked for although the grammar let it through; None if it is.

    Takes time in proportion to text and schema: patterns are matched by the grammar engine, never by
    backtracking, and nothing is fetched.
    """
    if rule is None or rule.check is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return f"the answer is not valid JSON as {PARAM} wants it"
    if _speaks_of_key_patterns(rule.check):
        return f"the answer was not checked against {PARAM}: it has patternProperties"
    try:
        found = next(_validator(rule.check).iter_errors(value), None)
    except BEYOND as error:
        return f"the answer could not be checked against {PARAM}: {_short(str(error) or type(error).__name__)}"
    if found is None:
        return None
    return f"the answer does not match {PARAM} at {found.json_path}: {_short(found.message)}"


# ---------------------------------------------------------------- the schema


def _guard(schema: Mapping[str, Json], name: str) -> None:
    if deeper_than(schema, DEPTH_MAX):
        raise _invalid(name, f"it nests deeper than {DEPTH_MAX} levels. Flatten it.")
    size = len(json.dumps(schema, default=str))
    if size > SCHEMA_CHARS_MAX:
        raise _invalid(name, f"it has {size} characters; the limit is {SCHEMA_CHARS_MAX}. Shorten it.")


def _invalid(name: str, reason: str) -> BadRequest:
    return BadRequest(f"Invalid schema for response_format '{name}': {reason}", param=PARAM)


def _with_bounds(node: Json) -> Json:
    """The schema with both bounds on integers that declare none, where no other part speaks of the same value."""
    if isinstance(node, list):
        return [_with_bounds(child) for child in node]
    if not isinstance(node, Mapping):
        return node
    kept = {"enum", "const", "default", "examples", "required", "allOf"}
    copy = {key: value if key in kept else _with_bounds(value) for key, value in node.items()}
    if node.get("type") == "integer" and set(node) <= {"type", "title", "description", "default", "examples"}:
        copy |= {"minimum": -INTEGER_MAX, "maximum": INTEGER_MAX}
    return copy


# ---------------------------------------------------------------- the check


def _validator(schema: Mapping[str, Json]) -> Validator:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    made: Validator = _without_backtracking(kind)(schema, registry=Registry())
    return made


@lru_cache(maxsize=16)
def _without_backtracking(kind: Any) -> Any:
    return jsonschema.validators.extend(kind, {"pattern": _match_pattern})  # type: ignore[no-untyped-call] # its stub


def _match_pattern(
    validator: Validator, pattern: str, value: Json, schema: Json
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(value, str):
        return
    matcher = LLMatcher(bytes_view(), lark_of(json.dumps({"type": "string", "pattern": ecma(pattern)})), log_level=0)
    if matcher.is_error():
        raise ValueError(f"the pattern {pattern!r} is not supported")
    written = list(json.dumps(value, ensure_ascii=False).encode())
    if matcher.try_consume_tokens(written) != len(written) or not matcher.is_accepting():
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _speaks_of_key_patterns(schema: Json) -> bool:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping) and "patternProperties" in node:
            return True
        waiting.extend(children(node))
    return False


def _short(reason: str) -> str:
    return reason if len(reason) <= REASON_CHARS_MAX else reason[: REASON_CHARS_MAX - 3] + "..."
