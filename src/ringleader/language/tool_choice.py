"""Reads the client's `tool_choice`, in every spelling that clients use, into one shape.

Never guesses: a choice that names no known tool, or that has no known form, is the caller's error.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ringleader.errors import BadRequest
from ringleader.values import Json, Tool, shown

CALLS_MAX = 16  # in one answer: ends a model that would call for ever, and no known agent asks for more

ACCEPTED = (
    'Use "none", "auto", "required" (or "any"), the name of a tool, {"type": "function", "function": {"name": "..."}}, '
    '{"type": "custom", "custom": {"name": "..."}} or '
    '{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [...]}}.'
)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What the answer may and must call: between `least` and `most` calls to the tools in `permitted`."""

    mode: Literal["none", "auto", "required"]
    permitted: tuple[str, ...]
    least: int
    most: int


def normalise(raw: Json, tools: tuple[Tool, ...], parallel: bool) -> ToolChoice:
    """The choice that `raw` spells, for a request with these tools.

    Raises:
        BadRequest: an unknown tool, an unknown form, or a forced choice without tools.
    """
    names = tuple(dict.fromkeys(tool.name for tool in tools))
    if raw is None:
        return _of_mode("auto" if names else "none", names, parallel)
    if isinstance(raw, str):
        return _from_word(raw, names, parallel)
    if isinstance(raw, Mapping):
        return _from_object(raw, tools, names, parallel)
    raise _wrong_shape(f"is {_kind(raw)}")


def _from_word(word: str, names: tuple[str, ...], parallel: bool) -> ToolChoice:
    if word in {"none", "auto", "required", "any"}:
        return _of_mode(word, names, parallel)
    if not names:
        raise _without_tools(f"'{word}'")
    return _named(word, names)


def _from_object(
    raw: Mapping[str, Json], tools: tuple[Tool, ...], names: tuple[str, ...], parallel: bool
) -> ToolChoice:
    kind = raw.get("type")
    if kind in ("function", "custom", "tool"):
        name = _function_name(raw, "tool_choice")
        _check_kind(raw, name, tools)
        return _named(name, names)
    if kind == "allowed_tools":
        return _allowed(raw, tools, names, parallel)
    if kind in ("none", "auto", "required", "any"):
        return _of_mode(str(kind), names, parallel and raw.get("disable_parallel_tool_use") is not True)
    raise _wrong_shape("is an object without 'type'" if kind is None else f"has the type {shown(kind)}")


def _allowed(raw: Mapping[str, Json], tools: tuple[Tool, ...], names: tuple[str, ...], parallel: bool) -> ToolChoice:
    """Chat Completions nests the list under `allowed_tools`; Responses writes it flat."""
    nested = raw.get("allowed_tools", raw)
    if not isinstance(nested, Mapping):
        raise _wrong_shape(f"has allowed_tools that is {_kind(nested)}, not an object")
    mode, listed = nested.get("mode", "auto"), nested.get("tools")
    if mode not in ("auto", "required"):
        raise _wrong_shape(f"has allowed_tools.mode {shown(mode)}, which is neither 'auto' nor 'required'")
    if not isinstance(listed, list) or not listed:
        raise _wrong_shape("has no allowed_tools.tools (a list that is not empty)")
    wanted = [_function_name(entry, f"allowed_tools.tools[{n}]") for n, entry in enumerate(listed)]
    for entry, name in zip(listed, wanted, strict=True):
        _check_known(name, names)
        _check_kind(entry, name, tools)
    return _of_mode(mode, tuple(name for name in names if name in wanted), parallel)


def _function_name(raw: Json, where: str) -> str:
    if isinstance(raw, str):
        return raw
    function = raw.get("function", raw.get("custom", raw)) if isinstance(raw, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise _wrong_shape(f"names no function (in {where})")
    return name


def _named(name: str, names: tuple[str, ...]) -> ToolChoice:
    _check_known(name, names)
    return ToolChoice("required", (name,), 1, 1)


def _of_mode(word: str, names: tuple[str, ...], parallel: bool) -> ToolChoice:
    most = CALLS_MAX if parallel else 1
    if word in {"required", "any"}:
        if not names:
            raise _without_tools(f"'{word}'")
        return ToolChoice("required", names, 1, most)
    if word == "none" or not names:
        return ToolChoice("none", (), 0, 0)
    return ToolChoice("auto", names, 0, most)


def _check_known(name: str, names: tuple[str, ...]) -> None:
    if name in names:
        return
    if not names:
        raise _without_tools(f"'{name[:64]}'")
    near = difflib.get_close_matches(name[:64], names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    listed = ", ".join(sorted(names)[:32]) + (f" and {len(names) - 32} more" if len(names) > 32 else "")
    raise BadRequest(
        f"tool_choice names '{name[:64]}', which is not among tools: {listed}.{hint}",
        param="tool_choice",
        code="unknown_tool",
    )


def _check_kind(raw: Json, name: str, tools: tuple[Tool, ...]) -> None:
    """A choice that says of what kind its tool is must be right: the call comes in the shape of the tool's own kind."""
    said = raw.get("type") if isinstance(raw, Mapping) else None
    for tool in tools:
        if tool.name == name and said in ("function", "custom") and said != tool.kind:
            raise BadRequest(
                f"tool_choice names '{name[:64]}' as a {said} tool, but in 'tools' it is a {tool.kind} tool. "
                f'Write "type": "{tool.kind}".',
                param="tool_choice",
                code="wrong_tool_type",
            )


def _without_tools(what: str) -> BadRequest:
    return BadRequest(
        f"tool_choice is {what}, but it is only allowed when 'tools' are specified. "
        "Send tools, or leave tool_choice out.",
        param="tool_choice",
    )


def _wrong_shape(got: str) -> BadRequest:
    return BadRequest(f"tool_choice {got}. {ACCEPTED}", param="tool_choice")


def _kind(value: Json) -> str:
    kinds: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    kinds |= {list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)
