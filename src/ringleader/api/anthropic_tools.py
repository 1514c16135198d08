"""Anthropic's tools to ours: the client's own, and those that it runs itself but whose schemas the API knows.

What runs on Anthropic's servers is not shown to the model beside tools that can be called: nobody here would run it.
A request that offers nothing else is refused: Claude Code sends one for every search, and would take words for results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.api.anthropic_wire import AnthropicToolWire, ToolChoiceWire, wrong
from ringleader.errors import BadRequest
from ringleader.values import Json, Tool

OWN = (None, "custom")
# The beginnings of their types; a version follows. The last two are the client's to run, with images for results.
FOREIGN = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "advisor_",
    "mcp_toolset",
    "computer_",
    "browser_",
)


@dataclass(frozen=True, slots=True)
class Known:
    """A tool that the client runs and that a model of Anthropic's was trained on: here it must be told of it."""

    description: str
    parameters: Mapping[str, Json]


def _object(required: tuple[str, ...], **properties: Json) -> Mapping[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


_PATH = _text("Absolute path of a file or directory.")
_RANGE = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "First and last line to view; -1 is the end.",
}
_LINE = {"type": "integer", "description": "The line after which to insert; 0 is the beginning."}


_FILE = {
    "path": _PATH,
    "view_range": _RANGE,
    "file_text": _text("For create: the file's whole content."),
    "old_str": _text("For str_replace: the text to replace, which must occur exactly once."),
    "new_str": _text("For str_replace: the text to put in its place."),
    "insert_line": _LINE,
    "insert_text": _text("For insert: the text to insert."),
}
_COMMANDS = ("view", "create", "str_replace", "insert")


def _older_editor(*more: str) -> Mapping[str, Json]:
    """Until 2025-07-28 the text to insert was called new_str, too."""
    told = {"new_str": _text("For str_replace: the text to put in its place. For insert: the text to insert.")}
    properties = {key: value for key, value in {**_FILE, **told}.items() if key != "insert_text"}
    return _object(("command", "path"), command={"type": "string", "enum": [*_COMMANDS, *more]}, **properties)


_BASH = Known(
    "Run a command in a shell that lives on between calls.",
    {
        "type": "object",
        "properties": {
            "command": _text("The command to run. Needed unless the shell is restarted."),
            "restart": {"type": "boolean", "description": "true restarts the shell."},
        },
        "additionalProperties": False,
    },
)
_EDIT = "View, create and edit text files."
_MEMORY = Known(
    "Keep notes in files below /memories that outlast this conversation.",
    _object(
        ("command",),
        command={"type": "string", "enum": [*_COMMANDS, "delete", "rename"]},
        old_path=_text("For rename: the path as it is."),
        new_path=_text("For rename: the path as it shall be."),
        **_FILE,
    ),
)
KNOWN: Mapping[str, Known] = {
    "bash_20241022": _BASH,
    "bash_20250124": _BASH,
    "text_editor_20241022": Known(_EDIT, _older_editor("undo_edit")),
    "text_editor_20250124": Known(_EDIT, _older_editor("undo_edit")),
    "text_editor_20250429": Known(_EDIT, _older_editor()),
    "text_editor_20250728": Known(
        _EDIT, _object(("command", "path"), command={"type": "string", "enum": [*_COMMANDS]}, **_FILE)
    ),
    "memory_20250818": _MEMORY,
}


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """What may be called; `places` are the indices that they have in the request, `hidden` those of the others."""

    tools: tuple[Tool, ...] = ()
    places: tuple[int, ...] = ()
    hidden: tuple[AnthropicToolWire, ...] = ()
    warnings: tuple[str, ...] = ()


def read_tools(wires: list[AnthropicToolWire]) -> MessagesTools:
    """What may be called. A repeated tool is one tool.

    Raises:
        BadRequest: a tool is unknown or has no schema, two differ under one name, or nobody here can run any of them.
    """
    tools: dict[str, Tool] = {}
    places: list[int] = []
    hidden: dict[int, AnthropicToolWire] = {}
    for index, wire in enumerate(wires):
        if wire.type not in KNOWN and str(wire.type).startswith(FOREIGN):
            hidden[index] = wire
            continue
        tool = _tool(wire, f"tools.{index}")
        if tool.name not in tools:
            places.append(index)
        if tools.setdefault(tool.name, tool) != tool:
            raise wrong("tools", f"Tool names must be unique: two different tools are named {tool.name!r}.")
    if hidden and not tools:
        first = next(iter(hidden))
        raise _unknown(str(hidden[first].type)[:64], f"tools.{first}", "nobody here can run it")
    listed = ", ".join(f"tools.{index} {str(wire.type)[:64]!r}" for index, wire in hidden.items())
    warnings = (f"not shown to the model, for nothing here can run them: {listed}",) if hidden else ()
    return MessagesTools(tuple(tools.values()), tuple(places), tuple(hidden.values()), warnings)


def _tool(wire: AnthropicToolWire, path: str) -> Tool:
    known = KNOWN.get(str(wire.type))
    if wire.type not in OWN and known is None:
        raise _unknown(str(wire.type)[:64], path, "it is no type of a tool that is known here")
    if wire.name is None:
        raise wrong(f"{path}.name", "Field required")
    if known is None:
        if wire.input_schema is None:
            raise wrong(f"{path}.input_schema", "Field required")
        return Tool(wire.name, wire.description or "", wire.input_schema, wire.strict)
    return Tool(wire.name, known.description, known.parameters, wire.strict)


def _unknown(kind: str, path: str, why: str) -> BadRequest:
    message = (
        f"{path}.type: {kind!r} is not supported: {why}. Send a tool of your own (name, description, input_schema), "
        f"or one of: {', '.join(sorted(KNOWN))}."
    )
    return BadRequest(message, param=f"{path}.type", code="unsupported_value")


def read_choice(wire: ToolChoiceWire | None, asked: MessagesTools) -> tuple[Json, bool]:
    """The choice as `language.tool_choice` reads it, and whether calls may be several.

    Raises:
        BadRequest: it names no tool, or one that nobody here can run.
    """
    if wire is None:
        return None, True
    parallel = wire.disable_parallel_tool_use is not True
    if wire.type == "tool":
        if not wire.name:
            raise wrong("tool_choice.tool.name", "Field required")
        for each in asked.hidden:
            if each.name == wire.name:
                why = f"{wire.name!r} ({str(each.type)[:64]}) cannot be called: nobody here can run it."
                raise wrong("tool_choice.tool.name", why)
        return {"type": "tool", "name": wire.name}, parallel
    if wire.type == "auto" and not asked.tools:  # it asks for nothing
        return None, parallel
    return {"type": wire.type}, parallel
