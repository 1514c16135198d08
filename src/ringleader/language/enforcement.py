"""How far a schema is enforced, and the check of what that leaves: one way for tools' arguments and answers of a form.

Enforced by the grammar where the engine can; what is not strict may have parts that are checked when a text is whole.
Nothing is dropped in silence: each such part makes a warning and a check.
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

from ringleader.language.patterns import ecma
from ringleader.language.recursion import children
from ringleader.language.schema import bytes_view, grammar_text, judge, lark_of
from ringleader.values import Json

FOUND_CHARS_MAX = 200
PATTERNS_KEPT_MAX = 64
# What jsonschema raises on a value or a schema that is beyond it. The grammar has enforced most by then.
BEYOND = (ArithmeticError, RecursionError, ValueError, TypeError, Unresolvable, jsonschema.exceptions.UnknownType)


@dataclass(frozen=True, slots=True)
class Check:
    """What a text must match when it is whole, because its grammar does not enforce all of the client's `schema`.

    `subject` says whose text it is ("the answer"), `param` where its schema stands in the request.
    """

    subject: str
    param: str
    schema: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Enforced:
    """A schema as the grammar takes it: `text` follows `%json`. `left` says what it does not enforce."""

    text: str
    lenient: bool = False
    left: tuple[str, ...] = ()


def enforce(closed: Mapping[str, Json], *, strict: bool, way_out: str) -> Enforced:
    """The most that the engine enforces of a schema, which is `closed` already.

    `way_out` is a sentence that says how to be served all the same, where leniency would do.

    Raises:
        ValueError: it cannot be enforced, and leniency is no help or not wanted; says why, in sentences.
    """
    text = grammar_text(closed, lenient=False)
    verdict = judge(text)
    if verdict.error is None:
        return Enforced(text, left=verdict.warnings)
    lenient_text = grammar_text(closed, lenient=True)
    lenient = judge(lenient_text)
    if lenient.error is not None:
        raise ValueError(f"{lenient.error} Correct the schema.")
    if strict:
        raise ValueError(f"{verdict.error} {way_out}")
    if _is_beyond_checks(closed):
        both = "'unevaluatedProperties' beside 'patternProperties' can be neither enforced nor checked."
        raise ValueError(f"{both} Take one of them out.")
    return Enforced(lenient_text, True, lenient.warnings or (verdict.error,))


def violation(check: Check | None, text: str) -> str | None:
    """Why `text`, which is whole, is not what was asked for although the grammar let it through; None if it is.

    Takes time in proportion to text and schema: patterns are matched by the grammar engine, never by
    backtracking, and nothing is fetched.
    """
    if check is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return f"{check.subject} is not valid JSON as {check.param} wants it"
    try:
        found = next(_validator(check.schema).iter_errors(value), None)
    except BEYOND as error:
        reason = _short(str(error) or type(error).__name__)
        return f"{check.subject} could not be checked against {check.param}: {reason}"
    if found is None:
        return None
    return f"{check.subject} does not match {check.param} at {found.json_path}: {_short(found.message)}"


def _is_beyond_checks(schema: Json) -> bool:
    """Whether checking it would need the patterns of keys where jsonschema itself matches them, by backtracking."""
    waiting, found = [schema], set[str]()
    while waiting:
        node = waiting.pop()
        found |= {"patternProperties", "unevaluatedProperties"} & set(node) if isinstance(node, Mapping) else set()
        waiting.extend(children(node))
    return len(found) == 2


def _short(reason: str) -> str:
    return reason if len(reason) <= FOUND_CHARS_MAX else reason[: FOUND_CHARS_MAX - 3] + "..."


# ---------------------------------------------------------------- jsonschema, without backtracking


def _validator(schema: Mapping[str, Json]) -> Validator:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    made: Validator = _without_backtracking(kind)(schema, registry=Registry())
    return made


@lru_cache(maxsize=16)
def _without_backtracking(kind: Any) -> Any:
    ours = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return jsonschema.validators.extend(kind, ours)  # type: ignore[no-untyped-call] # its stub


Errors = Iterator[jsonschema.ValidationError]


def _pattern(validator: Validator, pattern: str, value: Json, schema: Json) -> Errors:
    if isinstance(value, str) and not _matches(pattern, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Json], value: Json, schema: Json) -> Errors:
    for pattern, part in patterns.items() if isinstance(value, dict) else ():
        for key in value:
            if _matches(pattern, key):
                yield from validator.descend(value[key], part, path=key, schema_path=pattern)


def _additional_properties(validator: Any, part: Json, value: Json, schema: Mapping[str, Json]) -> Errors:
    if not isinstance(value, dict):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in value:
        if key not in declared and not any(_matches(pattern, key) for pattern in patterns):
            if part is False:
                yield jsonschema.ValidationError(f"Additional properties are not allowed ({key!r} was unexpected)")
            else:
                yield from validator.descend(value[key], part, path=key)


def _matches(pattern: str, value: str) -> bool:
    matcher = _matcher(pattern).deep_copy()
    written = list(json.dumps(value, ensure_ascii=False).encode())
    return matcher.try_consume_tokens(written) == len(written) and bool(matcher.is_accepting())


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _matcher(pattern: str) -> LLMatcher:
    matcher = LLMatcher(bytes_view(), lark_of(json.dumps({"type": "string", "pattern": ecma(pattern)})), log_level=0)
    if matcher.is_error():
        raise ValueError(f"the pattern {pattern!r} is not supported")
    return matcher
