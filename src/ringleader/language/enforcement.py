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
import regex  # type: ignore[import-untyped]  # ships none
from jsonschema.protocols import Validator
from llguidance import LLMatcher
from referencing import Registry
from referencing.exceptions import Unresolvable

from ringleader.language.keywords import has_tuples
from ringleader.language.patterns import ecma, portable
from ringleader.language.recursion import NOT_SCHEMAS, children
from ringleader.language.schema import DEAD_END, bytes_view, grammar_text, judge, lark_of
from ringleader.values import Json

FOUND_CHARS_MAX = 200
MATCH_TIMEOUT_S = 0.05  # of one pattern with look-around on one string: a sane one takes microseconds
PATTERNS_KEPT_MAX = 64
# What jsonschema raises on a value or a schema that is beyond it. The grammar has enforced most by then.
BEYOND = (
    ArithmeticError,
    RecursionError,
    ValueError,
    TypeError,
    TimeoutError,
    Unresolvable,
    jsonschema.exceptions.UnknownType,
)


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
    """A schema as the grammar takes it: `schema`, and as `text` that follows `%json`. `left` says what it does not
    enforce."""

    text: str
    schema: Mapping[str, Json]
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
        return Enforced(text, closed, left=verdict.warnings)
    if verdict.error == DEAD_END:
        raise ValueError(f"{DEAD_END} Correct the schema.")
    left: list[str] = []
    open_ = _without_foreign_patterns(closed, left)
    lenient_text = grammar_text(open_, lenient=True)
    lenient = judge(lenient_text)
    if lenient.error is not None:
        raise ValueError(f"{lenient.error} Correct the schema.")
    if strict:
        raise ValueError(f"{verdict.error} {way_out}")
    if _is_beyond_checks(closed):
        both = "'unevaluatedProperties' beside 'patternProperties' can be neither enforced nor checked."
        raise ValueError(f"{both} Take one of them out.")
    return Enforced(lenient_text, open_, True, (*left, *lenient.warnings) or (verdict.error,))


def violation(check: Check | None, text: str) -> str | None:
    """Why `text`, which is whole, is not what was asked for although the grammar let it through; None if it is.

    Takes time in proportion to text and schema: patterns are matched by the grammar engine, or with look-around by
    a matcher that is stopped in time; nothing is fetched.
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


def _without_foreign_patterns(node: Any, left: list[str]) -> Any:
    """The schema without patterns that are ones, but not to the engine (look-around, `\\b`); those go to `left`."""
    if isinstance(node, list):
        return [_without_foreign_patterns(child, left) for child in node]
    if not isinstance(node, Mapping):
        return node
    kept = {key: node[key] for key in NOT_SCHEMAS if key in node}
    copy = {key: _without_foreign_patterns(value, left) for key, value in node.items()} | kept
    if isinstance(pattern := node.get("pattern"), str) and _is_foreign(pattern):
        del copy["pattern"]
        left.append(f"the pattern {_short(pattern)} cannot be enforced")
    return copy


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _is_foreign(pattern: str) -> bool:
    fault = judge(grammar_text({"type": "string", "pattern": pattern}, lenient=False)).error
    if fault is None or "is not supported" not in fault:
        return False
    try:
        _backtracking(pattern)
    except ValueError:
        return False
    return True


def _short(reason: str) -> str:
    return reason if len(reason) <= FOUND_CHARS_MAX else reason[: FOUND_CHARS_MAX - 3] + "..."


# ---------------------------------------------------------------- jsonschema, with our own matching of patterns


def _validator(schema: Mapping[str, Json]) -> Validator:
    default = jsonschema.Draft201909Validator if has_tuples(schema) else jsonschema.Draft202012Validator
    kind = jsonschema.validators.validator_for(schema, default=default)
    made: Validator = _with_our_patterns(kind)(schema, registry=Registry())
    return made


@lru_cache(maxsize=16)
def _with_our_patterns(kind: Any) -> Any:
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
    own = _matcher(pattern)
    if own is None:
        found = _backtracking(pattern).search(value, timeout=MATCH_TIMEOUT_S, concurrent=True)
        return found is not None
    matcher = own.deep_copy()
    written = list(json.dumps(value, ensure_ascii=False).encode())
    return matcher.try_consume_tokens(written) == len(written) and bool(matcher.is_accepting())


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _matcher(pattern: str) -> LLMatcher | None:
    """The engine's own, which takes time in proportion; None where it cannot read the pattern."""
    matcher = LLMatcher(bytes_view(), lark_of(json.dumps({"type": "string", "pattern": ecma(pattern)})), log_level=0)
    return None if matcher.is_error() else matcher


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _backtracking(pattern: str) -> Any:
    """For look-around: the one matcher that can be stopped, and that lets other threads run meanwhile."""
    try:
        return regex.compile(portable(pattern), regex.VERSION0 | (0 if "\\p" in pattern.lower() else regex.ASCII))
    except regex.error as error:
        raise ValueError(f"the pattern {pattern!r} is not supported: {error}") from None
