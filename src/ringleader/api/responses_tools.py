"""Responses' tools, written flat, to tools and one choice; those that OpenAI's servers run are left out and told of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ringleader.api.body import json_type
from ringleader.api.openai_tools import ToolsAsked, checked_tools
from ringleader.api.responses_history import SHELL
from ringleader.api.responses_hosted import demanded, is_hosted, not_shown, nothing_else, why_hosted
from ringleader.api.responses_wire import FlatCustom, FlatFunction, LocalShell, Namespace, ResponsesWire
from ringleader.api.validation import parse
from ringleader.errors import BadRequest, CallerFault
from ringleader.values import CustomGrammar, Json, Tool, shown

_KINDS: Mapping[str, type[Any]] = {
    "function": FlatFunction,
    "custom": FlatCustom,
    "local_shell": LocalShell,
    "namespace": Namespace,
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
_NESTED = re.compile(r"\btools\[(\d+)\](?:\.(?:function|custom)\b)?")


@dataclass(frozen=True, slots=True)
class FlatTools:
    """The tools of a request: `calls` as they are shown to the model, `places` where the client wrote each.

    `origins` has the name and the namespace of those that stand in one, by the name that is shown; `warnings` tell
    of what is not shown.
    """

    calls: ToolsAsked
    places: tuple[str, ...] = ()
    origins: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def shown_name(self, name: str, namespace: str | None) -> str:
        """What the model knows a tool by that the client calls so."""
        if namespace is None:
            return name
        found = (shown for shown, origin in self.origins.items() if origin == (name, namespace))
        return next(found, qualified(namespace, name))


@dataclass(frozen=True, slots=True)
class _Listed:
    tool: Tool
    place: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class _Hidden:
    kind: str
    place: str


def qualified(namespace: str, name: str) -> str:
    """Both names in one."""
    return f"{namespace}__{name}"


def read_flat_tools(wire: ResponsesWire) -> FlatTools:
    """What may and must be called.

    Raises:
        BadRequest: an entry is wrong, two differ under one name, or the choice demands what nothing here can run.
    """
    entries = _listed(wire.tools, "tools", None)
    listed = [each for each in entries if isinstance(each, _Listed)]
    hidden = [(each.place, each.kind) for each in entries if isinstance(each, _Hidden)]
    counted = Counter(each.tool.name for each in listed)
    origins: dict[str, tuple[str, str]] = {}
    tools: list[tuple[Tool, str]] = []
    for each in listed:
        tool = each.tool
        if each.namespace is not None:
            if counted[tool.name] > 1:
                tool = replace(tool, name=qualified(each.namespace, tool.name))
            origins[tool.name] = (each.tool.name, each.namespace)
        tools.append((tool, each.place))
    read = FlatTools(
        ToolsAsked(checked_tools(tools), None, wire.parallel_tool_calls is not False),
        tuple(place for _, place in tools),
        origins,
        (not_shown(hidden),) if hidden else (),
    )
    calls = replace(read.calls, choice=_choice(wire.tool_choice, read))
    if hidden and not tools and calls.forced:
        raise nothing_else(hidden)
    return replace(read, calls=calls)


def in_responses_words(fault: CallerFault, places: Sequence[str] = ()) -> CallerFault:
    """A fault found later, with fields named as this API has them. `places` are those of the tools, in their order."""
    text, param = places_of_responses(str(fault), places), fault.param
    if param is not None:
        param = _PARAMS.get(param) or ("input" if param.startswith("messages") else places_of_responses(param, places))
    return type(fault)(text, param=param, code=fault.code)


def places_of_responses(text: str, places: Sequence[str]) -> str:
    """`text` with the places of tools and of the answer's form as a client of this API has written them."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return places[index] if index < len(places) else f"tools[{index}]"

    text = text.replace("response_format.json_schema", "text.format").replace("response_format", "text.format")
    return _NESTED.sub(place, text).replace("'messages'", "'input'")


def _listed(entries: Json, path: str, namespace: str | None) -> list[_Listed | _Hidden]:
    if entries is None:
        return []
    if not isinstance(entries, list):
        message = f"Invalid type for '{path}': expected an array, but got {json_type(entries)} instead."
        raise BadRequest(message, param=path, code="invalid_type")
    found: list[_Listed | _Hidden] = []
    for index, entry in enumerate(entries):
        place = f"{path}[{index}]"
        if is_hosted(entry):
            found.append(_Hidden(entry["type"], place))
            continue
        wire = _entry(entry, place, inside=namespace is not None)
        if isinstance(wire, Namespace):
            found += _listed(wire.tools, f"{place}.tools", wire.name)
        else:
            found.append(_Listed(_tool(wire, place), place, namespace))
    return found


def _entry(entry: Json, place: str, *, inside: bool) -> Any:
    """One entry by its type; inside a namespace only functions and custom tools stand."""
    kinds = {kind: _KINDS[kind] for kind in ("function", "custom")} if inside else _KINDS
    kind = entry.get("type") if isinstance(entry, dict) else None
    if isinstance(entry, dict) and (not isinstance(kind, str) or kind not in kinds):
        known = ", ".join(repr(each) for each in kinds)
        message = f"Invalid value: {shown(kind)} for '{place}.type'. Supported values are: {known}."
        raise BadRequest(message, param=f"{place}.type")
    return parse(kinds.get(str(kind), FlatFunction), entry, (place,))


def _tool(wire: FlatFunction | FlatCustom | LocalShell, place: str) -> Tool:
    if isinstance(wire, LocalShell):
        return SHELL_TOOL
    if isinstance(wire, FlatFunction):
        return Tool(wire.name, wire.description or "", wire.parameters, wire.strict)
    return Tool(wire.name, wire.description or "", kind="custom", grammar=_grammar(wire, place))


def _grammar(wire: FlatCustom, path: str) -> CustomGrammar | None:
    if wire.format is None or wire.format.type == "text":
        return None
    for name in ("syntax", "definition"):
        if getattr(wire.format, name) is None:
            param = f"{path}.format.{name}"
            message = f"Missing required parameter: '{param}'."
            raise BadRequest(message, param=param, code="missing_required_parameter")
    assert wire.format.syntax is not None and wire.format.definition is not None
    return CustomGrammar(wire.format.syntax, wire.format.definition)


def _choice(raw: Json, tools: FlatTools) -> Json:
    """The client's own choice, with tools by the names that the model knows. What it asks for is read later."""
    if not isinstance(raw, Mapping):
        return raw
    kind = raw.get("type")
    if kind == "local_shell":
        return {"type": "function", "name": SHELL}
    if isinstance(kind, str) and why_hosted(kind) is not None:
        raise demanded(kind)
    if kind == "allowed_tools" and isinstance(raw.get("tools"), list):
        return _allowed(raw, raw["tools"], tools)
    name, namespace = raw.get("name"), raw.get("namespace")
    if isinstance(name, str) and isinstance(namespace, str):
        return {**raw, "name": tools.shown_name(name, namespace)}
    return raw


def _allowed(raw: Mapping[str, Json], listed: list[Json], tools: FlatTools) -> Json:
    """Of what is allowed, what can be called. Where that is nothing, a free choice is that of no tool."""
    kept = [_choice(entry, tools) for entry in listed if not is_hosted(entry)]
    if listed and not kept:
        if raw.get("mode") == "required":
            raise demanded(listed[0]["type"])
        return "none"
    return {**raw, "tools": kept}
