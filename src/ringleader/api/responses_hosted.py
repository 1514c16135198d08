"""Tools that OpenAI's servers run, or that want a client of a special kind: nobody here would run a call of one.

Clients offer them unasked. They are taken, and the model is not told of them; a choice that demands one is refused.
What they did elsewhere comes back in histories: the model is told of it in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ringleader.errors import BadRequest
from ringleader.values import Json

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
    "programmatic_tool_calling": "no code is run here",
}

# Their items in a history, and the fields that say what was asked and what came of it. Pictures are not among them,
# nor lists of tools that nobody here can call: items without such a field are left out.
ITEMS: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("action",),
    "file_search_call": ("queries", "results"),
    "computer_call": ("action", "actions"),
    "computer_call_output": (),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt",),
    "mcp_list_tools": (),
    "mcp_approval_request": ("server_label", "name", "arguments"),
    "mcp_approval_response": ("approve", "reason"),
    "mcp_call": ("server_label", "name", "arguments", "output", "error"),
    "shell_call": ("action",),
    "shell_call_output": ("output",),
    "apply_patch_call": ("operation",),
    "apply_patch_call_output": ("status", "output"),
    "tool_search_call": ("arguments",),
    "tool_search_output": (),
    "program": ("code",),
    "program_output": ("result",),
}
LISTED_MAX = 8  # items that a warning names


def why_hosted(kind: Json) -> str | None:
    """Why nothing here can serve a tool of this type; None for any other. OpenAI writes dates behind some names."""
    return HOSTED.get(re.sub(r"_\d{4}_\d{2}_\d{2}$", "", kind)) if isinstance(kind, str) else None


def is_hosted(entry: Json) -> bool:
    """Whether an entry of `tools` is one of them."""
    return isinstance(entry, Mapping) and why_hosted(entry.get("type")) is not None


def not_shown(hidden: Sequence[tuple[str, str]]) -> str:
    """The warning about tools that were offered: their places and types."""
    listed = ", ".join(f"{place} {kind!r}" for place, kind in hidden)
    return f"not shown to the model, for nothing here can run them: {listed}"


def done_elsewhere(kind: str, fields: Mapping[str, Json]) -> str:
    """An item of a history in words; "" where there is nothing to tell."""
    told = {name: fields[name] for name in ITEMS[kind] if fields.get(name) is not None}
    if fields.get("status") in ("failed", "incomplete"):
        told["status"] = fields["status"]
    return f"[{kind}] {json.dumps(told, ensure_ascii=False)}" if told else ""


def told_in_words(items: Sequence[tuple[str, str]]) -> str:
    """The warning about such items: their places and types."""
    listed = ", ".join(f"{place} {kind!r}" for place, kind in items[:LISTED_MAX])
    more = f" and {len(items) - LISTED_MAX} more" if len(items) > LISTED_MAX else ""
    return f"read as words, without pictures, for they tell of tools that nothing here can run: {listed}{more}"


def demanded(kind: str) -> BadRequest:
    """The error of a choice that nothing but a tool of type `kind` could keep."""
    message = f"'tool_choice' {kind!r} is not supported: {why_hosted(kind)}. Leave it out, or choose a function."
    return BadRequest(message, param="tool_choice", code="unsupported_tool")


def nothing_else(hidden: Sequence[tuple[str, str]]) -> BadRequest:
    """The error of a choice that demands a call where only such tools are offered."""
    kinds = ", ".join(dict.fromkeys(repr(kind) for _, kind in hidden))
    message = f"'tool_choice' demands a call, and nothing here can run what 'tools' offers: {kinds}. Add a function, "
    return BadRequest(message + "or leave tool_choice out.", param="tool_choice", code="unsupported_tool")
