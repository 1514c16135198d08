"""Responses' tools, written flat, to tools and one choice; what OpenAI's servers run themselves is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ringleader.api.openai_tools import ToolsAsked, checked_tools
from ringleader.api.responses_history import SHELL
from ringleader.api.responses_wire import FlatCustom, FlatFunction, LocalShell, ResponsesWire
from ringleader.api.validation import parse, shown
from ringleader.errors import BadRequest, CallerFault
from ringleader.values import CustomGrammar, Json, Tool

_KINDS: Mapping[str, type[Any]] = {"function": FlatFunction, "custom": FlatCustom, "local_shell": LocalShell}
# OpenAI's servers run these, or want a client of a special kind.
HOSTED: Mapping[str, str] = {
    "web_search": "there is no web search",
    "web_search_preview": "there is no web search",
    "file_search": "there are no vector stores",
    "computer": "there is no computer use",
    "computer_use": "there is no computer use",
    "computer_use_preview": "there is no computer use",
    "code_interpreter": "no code is run here",
    "image_generation": "only text is made here",
    "mcp": "no MCP server is called from here",
    "shell": "no commands are run here",
    "apply_patch": "send apply_patch as a custom tool with a grammar",
    "tool_search": "all tools are shown to the model",
    "namespace": "list the tools themselves",
    "programmatic_tool_calling": "no code is run here",
}
SHELL_TOOL = Tool(
    SHELL,
    "Runs a command on the user's machine and gives its output.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "working_directory": {"type": "string"},
            "timeout_ms": {"type": "integer", "minimum": 1},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)
_PARAMS = {"response_format": "text.format.schema"}  # of a format, nothing but its schema can be wrong later
_NESTED = re.compile(r"\b(tools\[\d+\])\.(?:function|custom)\b")


def read_flat_tools(wire: ResponsesWire) -> ToolsAsked:
    """What may and must be called.

    Raises:
        BadRequest: an entry is wrong, two differ under one name, or it is a tool that only OpenAI's servers have.
    """
    entries: Any = wire.tools
    if entries is not None and not isinstance(entries, list):
        message = f"Invalid type for 'tools': expected an array, but got {shown(entries)} instead."
        raise BadRequest(message, param="tools", code="invalid_type")
    tools = [(_tool(entry, index), f"tools[{index}]") for index, entry in enumerate(entries or ())]
    choice = _choice(wire.tool_choice)
    return ToolsAsked(checked_tools(tools), choice, wire.parallel_tool_calls is not False)


def in_responses_words(fault: CallerFault) -> CallerFault:
    """A fault found later, with fields named as this API has them."""
    text, param = _renamed(str(fault)), fault.param
    if param is not None:
        param = _PARAMS.get(param) or ("input" if param.startswith("messages") else _renamed(param))
    return type(fault)(text, param=param, code=fault.code)


def _renamed(text: str) -> str:
    text = text.replace("response_format.json_schema", "text.format").replace("response_format", "text.format")
    return _NESTED.sub(r"\1", text).replace("'messages'", "'input'")


def _tool(entry: Json, index: int) -> Tool:
    path = f"tools[{index}]"
    kind = entry.get("type") if isinstance(entry, dict) else None
    if isinstance(kind, str) and (why := _hosted(kind)) is not None:
        message = f"'{path}.type' {kind!r} is not supported: {why}. Leave it out, or give the model a function."
        raise BadRequest(message, param=f"{path}.type", code="unsupported_tool")
    if isinstance(entry, dict) and kind not in _KINDS:
        known = ", ".join(repr(each) for each in _KINDS)
        message = f"Invalid value: {shown(kind)} for '{path}.type'. Supported values are: {known}."
        raise BadRequest(message, param=f"{path}.type")
    wire = parse(_KINDS.get(str(kind), FlatFunction), entry, ("tools", index))
    if isinstance(wire, LocalShell):
        return SHELL_TOOL
    if isinstance(wire, FlatFunction):
        return Tool(wire.name, wire.description or "", wire.parameters, wire.strict)
    return Tool(wire.name, wire.description or "", kind="custom", grammar=_grammar(wire, path))


def _hosted(kind: str) -> str | None:
    """Why `kind` is refused; OpenAI writes dates behind some names."""
    return HOSTED.get(re.sub(r"_\d{4}_\d{2}_\d{2}$", "", kind))


def _grammar(wire: FlatCustom, path: str) -> CustomGrammar | None:
    if wire.format is None or wire.format.type == "text":
        return None
    for field in ("syntax", "definition"):
        if getattr(wire.format, field) is None:
            param = f"{path}.format.{field}"
            message = f"Missing required parameter: '{param}'."
            raise BadRequest(message, param=param, code="missing_required_parameter")
    assert wire.format.syntax is not None and wire.format.definition is not None
    return CustomGrammar(wire.format.syntax, wire.format.definition)


def _choice(raw: Json) -> Json:
    """The client's own choice, with the shell under its name. Other forms are read with the tools at hand."""
    if not isinstance(raw, Mapping):
        return raw
    kind = raw.get("type")
    if kind == "local_shell":
        return {"type": "function", "name": SHELL}
    if isinstance(kind, str) and (why := _hosted(kind)) is not None:
        message = f"'tool_choice' {kind!r} is not supported: {why}."
        raise BadRequest(message, param="tool_choice", code="unsupported_tool")
    if kind == "allowed_tools" and isinstance(raw.get("tools"), list):
        return {**raw, "tools": [_choice(entry) for entry in raw["tools"]]}
    return raw
