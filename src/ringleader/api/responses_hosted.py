"""Tools that OpenAI's servers run, or that want a client of a special kind: nobody here would run a call of one.

Clients offer them unasked. They are taken, and the model is not told of them; a choice that demands one is refused.
"""

from __future__ import annotations

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


def demanded(kind: str) -> BadRequest:
    """The error of a choice that nothing but a tool of type `kind` could keep."""
    message = f"'tool_choice' {kind!r} is not supported: {why_hosted(kind)}. Leave it out, or choose a function."
    return BadRequest(message, param="tool_choice", code="unsupported_tool")


def nothing_else(hidden: Sequence[tuple[str, str]]) -> BadRequest:
    """The error of a choice that demands a call where only such tools are offered."""
    kinds = ", ".join(dict.fromkeys(repr(kind) for _, kind in hidden))
    message = f"'tool_choice' demands a call, and nothing here can run what 'tools' offers: {kinds}. Add a function, "
    return BadRequest(message + "or leave tool_choice out.", param="tool_choice", code="unsupported_tool")
