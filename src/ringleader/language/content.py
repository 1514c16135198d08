"""What an answer's text must be (`response_format`), as a rule of its grammar.

The rule writes JSON with no free whitespace, so that no model can loop in it; integers end after 18 digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ringleader.errors import BadRequest
from ringleader.language.enforcement import Check, enforce
from ringleader.language.keywords import TUPLES, has_tuples, normalised
from ringleader.language.outgrowth import CODE, Outgrown, Probe, has_patterns, unbearable
from ringleader.language.recursion import deeper_than
from ringleader.language.schema import DEAD_END, DEPTH_MAX, SCHEMA_CHARS_MAX, TOO_DEEP, closed_value, grammar_text
from ringleader.values import ContentFormat, Json

PARAM = "response_format"
SCHEMA_PARAM = "response_format.json_schema.schema"
ANY_OBJECT: Mapping[str, Json] = {"type": "object"}
# Without a bound a model that likes a digit writes it until its tokens end. No program reads longer integers exactly.
INTEGER_MAX = 10**18 - 1
WAY_OUT = "Take that out of the schema, or set 'strict' to false: it is then checked, not enforced."


@dataclass(frozen=True, slots=True)
class ContentRule:
    """`schema` is the JSON text that follows `%json`, made of the `client`'s schema. `check` is what it does not
    enforce all of; `warnings` says what it leaves out."""

    schema: str
    warnings: tuple[str, ...] = ()
    check: Check | None = None
    client: Mapping[str, Json] = field(default_factory=dict)


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
        schema = normalised({key: value for key, value in schema.items() if key != "x-guidance"})
        closed = _with_bounds(closed_value(schema))
        assert isinstance(closed, dict)
        enforced = enforce(closed, strict=wanted.strict is not False, way_out=WAY_OUT)
    except ValueError as reason:
        if str(reason).startswith(DEAD_END) and (found := unbearable(schema)) is not None:
            raise _outgrown(found) from None
        raise _invalid(wanted.name, str(reason)) from None
    warnings = (f"{SCHEMA_PARAM}: {TUPLES}",) if has_tuples(schema) else ()
    if not enforced.left:
        return ContentRule(enforced.text, warnings, client=schema)
    warning = f"{PARAM} is not wholly enforced, the answer is checked against it when it is whole: "
    check = Check("the answer", PARAM, schema)
    return ContentRule(enforced.text, (warning + "; ".join(enforced.left), *warnings), check, client=schema)


def patterned_content(rule: ContentRule, probe: Probe) -> tuple[str, ...]:
    """The place of the schema, if it has patterns.

    Raises:
        BadRequest: a pattern outgrows the grammar engine at some text, with this vocabulary.
    """
    schema = rule.client
    if not has_patterns(schema):
        return ()
    if (found := probe.schema(schema)) is not None:
        raise _outgrown(found)
    return (SCHEMA_PARAM,)


# ---------------------------------------------------------------- the schema


def _guard(schema: Mapping[str, Json], name: str) -> None:
    if deeper_than(schema, DEPTH_MAX):
        raise _invalid(name, TOO_DEEP)
    size = len(json.dumps(schema, default=str))
    if size > SCHEMA_CHARS_MAX:
        raise _invalid(name, f"it has {size} characters; the limit is {SCHEMA_CHARS_MAX}. Shorten it.")


def _outgrown(found: Outgrown) -> BadRequest:
    return BadRequest(f"Invalid schema for response_format: {found}", param=SCHEMA_PARAM, code=CODE)


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
