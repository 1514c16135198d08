"""Chat Completions' tools, of both kinds, and its older `functions`, to one set of tools and one choice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.api.openai_history import missing
from ringleader.api.openai_wire import ChatWire, CustomWire, FunctionWire, ToolWire
from ringleader.errors import BadRequest, CallerFault
from ringleader.values import CustomGrammar, Json, Tool, shown

# Every other word that a tool_choice may be is a tool's name.
MODES = ("none", "auto", "required", "any")
_WORDS = (
    ("'tools'", "'functions'"),
    ("among tools:", "among functions:"),
    ("Send tools,", "Send functions,"),
    ("two different tools are", "two different functions are"),
    ("the tools", "the functions"),
    ("simpler tools", "simpler functions"),
    ("fewer tools", "fewer functions"),
)
_FUNCTION_PATH = re.compile(r"\btools(\[\d+\])\.function")


@dataclass(frozen=True, slots=True)
class ToolsAsked:
    """`choice` is the client's own JSON, in the newer spelling. `legacy`: the client speaks of functions."""

    tools: tuple[Tool, ...]
    choice: Json
    parallel: bool
    legacy: bool = False

    @property
    def custom(self) -> frozenset[str]:
        """The names of the custom tools."""
        return frozenset(tool.name for tool in self.tools if tool.kind == "custom")

    @property
    def forced(self) -> bool:
        """Whether a call is wanted, and text is none."""
        if isinstance(self.choice, Mapping) and self.choice.get("type") == "allowed_tools":
            nested = self.choice.get("allowed_tools", self.choice)
            return isinstance(nested, Mapping) and nested.get("mode") == "required"
        word = self.choice.get("type") if isinstance(self.choice, Mapping) else self.choice
        return self.named or word in ("required", "any")

    @property
    def named(self) -> bool:
        """Whether the choice is one tool by its name."""
        if isinstance(self.choice, Mapping):
            return self.choice.get("type") in ("function", "custom", "tool")
        return isinstance(self.choice, str) and self.choice not in MODES


def read_tools(wire: ChatWire) -> ToolsAsked:
    """What may and must be called.

    Raises:
        BadRequest: an entry lacks its body, two differ under one name, or old and new fields are mixed.
    """
    if wire.functions:
        return _legacy(wire, wire.functions)
    if wire.function_call not in (None, "none"):
        message = "Invalid value for 'function_call': 'function_call' is only allowed when 'functions' are specified."
        raise BadRequest(message, param="function_call")
    entries = [(_tool(entry, f"tools[{n}]"), f"tools[{n}].{entry.type}") for n, entry in enumerate(wire.tools or [])]
    return ToolsAsked(checked_tools(entries), wire.tool_choice, wire.parallel_tool_calls is not False)


def in_functions_words(fault: CallerFault) -> CallerFault:
    """A fault found later, about tools, for a client that speaks of functions."""
    param = fault.param and places_of_functions(fault.param).replace("tool_choice", "function_call")
    message = places_of_functions(str(fault)).replace("tool_choice", "function_call")
    for tools, functions in _WORDS:
        message = message.replace(tools, functions)
    return type(fault)(message, param="functions" if param == "tools" else param, code=fault.code)


def places_of_functions(text: str) -> str:
    """`text` with the places of tools as a client of functions has written them."""
    return _FUNCTION_PATH.sub(r"functions\1", text)


def _legacy(wire: ChatWire, functions: list[FunctionWire]) -> ToolsAsked:
    for field, instead in (("tools", "functions"), ("tool_choice", "function_call")):
        if getattr(wire, field):
            message = f"'{field}' is not allowed together with 'functions': use {instead}, or tools alone."
            raise BadRequest(message, param=field)
    choice = wire.function_call
    if isinstance(choice, Mapping) and isinstance(choice.get("name"), str):
        choice = {"type": "function", "function": {"name": choice["name"]}}
    elif choice not in (None, "none", "auto"):
        message = f"Invalid value: {shown(choice)} for 'function_call'. Supported values are: 'none', 'auto' and "
        raise BadRequest(message + "an object with the 'name' of a function.", param="function_call")
    entries = [(_function(each), f"functions[{n}]") for n, each in enumerate(functions)]
    return ToolsAsked(checked_tools(entries), choice, parallel=False, legacy=True)


def _tool(wire: ToolWire, path: str) -> Tool:
    if wire.type == "custom":
        if wire.custom is None:
            raise missing(f"{path}.custom")
        return _custom(wire.custom, f"{path}.custom")
    if wire.function is None:
        raise missing(f"{path}.function")
    return _function(wire.function)


def _function(wire: FunctionWire) -> Tool:
    return Tool(wire.name, wire.description or "", wire.parameters, wire.strict)


def _custom(wire: CustomWire, path: str) -> Tool:
    grammar = None
    if wire.format is not None and wire.format.type == "grammar":
        if wire.format.grammar is None:
            raise missing(f"{path}.format.grammar")
        grammar = CustomGrammar(wire.format.grammar.syntax, wire.format.grammar.definition)
    return Tool(wire.name, wire.description or "", kind="custom", grammar=grammar)


def checked_tools(entries: list[tuple[Tool, str]]) -> tuple[Tool, ...]:
    """All of them, repeated ones too: whoever finds a fault in one later names it by the client's own number."""
    tools: dict[str, Tool] = {}
    for tool, path in entries:
        if tools.setdefault(tool.name, tool) != tool:
            message = f"Invalid '{path}.name': another tool is named {tool.name!r} too, and they differ."
            raise BadRequest(message, param=f"{path}.name", code="duplicate_name")
    return tuple(tool for tool, _ in entries)
