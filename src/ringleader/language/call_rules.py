"""The tools that an answer may call, as the grammar must let them be called; what is left to check afterwards.

A strict tool is enforced in full or refused. Any other is enforced as far as it can be, whatever the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringleader.errors import BadRequest
from ringleader.language.custom import is_raw
from ringleader.language.dialects.dialect import CallRule
from ringleader.language.enforcement import Check, Enforced, enforce
from ringleader.language.keywords import TUPLES, has_tuples, normalised
from ringleader.language.outgrowth import CODE, Outgrown, Probe, has_patterns, unbearable
from ringleader.language.schema import DEAD_END, closed, invalid
from ringleader.language.tool_choice import ToolChoice
from ringleader.values import Json, Tool

WAY_OUT = "Take that out of the schema, or leave 'strict' out: calls are then checked against it when they are whole."


@dataclass(frozen=True, slots=True)
class Callables:
    """What may be called. `raw` are custom tools whose text is a grammar of the client's; `checks` are by a tool's
    name; `patterned` are the places in the request of what may outgrow the engine at some text."""

    rules: tuple[CallRule, ...] = ()
    raw: tuple[Tool, ...] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    patterned: tuple[str, ...] = ()


def callables(tools: Sequence[Tool], choice: ToolChoice, probe: Probe) -> Callables:
    """The permitted tools of a request, each once.

    Raises:
        BadRequest: a schema that cannot be used, or that a strict tool cannot be held to; names its place.
    """
    rules: dict[str, CallRule] = {}
    raw: dict[str, Tool] = {}
    checks: dict[str, Check] = {}
    warnings: list[str] = []
    patterned: list[str] = []
    for index, tool in enumerate(tools):
        if tool.name not in choice.permitted or tool.name in rules or tool.name in raw:
            continue
        param = f"tools[{index}].function.parameters"
        if tool.grammar is not None:
            param = f"tools[{index}].custom.format.grammar.definition"
        if is_raw(tool):
            raw[tool.name] = tool
            _refuse_outgrown(tool, param, probe.raw(tool))
        else:
            schema, enforced = _enforced(tool, param)
            rules[tool.name] = CallRule(tool.name, enforced.text, enforced.schema, enforced.lenient)
            _refuse_outgrown(tool, param, probe.schema(schema, translated=_is_translated(tool)))
            if enforced.left:
                checks[tool.name] = Check(f"the call of '{tool.name}'", param, schema)
                warnings.append(_warning(tool, param, enforced.left))
            if has_tuples(schema):
                warnings.append(f"{param}: {TUPLES}")
        if is_raw(tool) or has_patterns(tool.parameters or {}):
            patterned.append(param)
    return Callables(tuple(rules.values()), tuple(raw.values()), checks, tuple(warnings), tuple(patterned))


def _enforced(tool: Tool, param: str) -> tuple[Mapping[str, Json], Enforced]:
    """The client's schema, in one spelling, and as it is enforced."""
    schema = tool.parameters or {}
    try:
        if _is_translated(tool):
            return schema, enforce(schema, strict=True, way_out="")
        schema = normalised(schema)
        return schema, enforce(closed(schema), strict=tool.strict is True, way_out=WAY_OUT)
    except ValueError as reason:
        if str(reason).startswith(DEAD_END):
            _refuse_outgrown(tool, param, unbearable(schema, translated=_is_translated(tool)))
        raise invalid(tool.name, param, str(reason)) from None


def _is_translated(tool: Tool) -> bool:
    """Whether it is a custom tool's function: closed already, its expression in the engine's own language."""
    return tool.grammar is not None


def _refuse_outgrown(tool: Tool, param: str, found: Outgrown | None) -> None:
    if found is not None:
        what = "schema for function" if tool.grammar is None else "grammar for custom tool"
        raise BadRequest(f"Invalid {what} '{tool.name}': {found}", param=param, code=CODE)


def _warning(tool: Tool, param: str, left: tuple[str, ...]) -> str:
    checked = f"each call of '{tool.name}' is checked against it when it is whole"
    return f"{param} is not wholly enforced, {checked}: {'; '.join(left)}"
