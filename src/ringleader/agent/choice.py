"""The choice of tools of an agent's step: every spelling that `language.tool_choice` reads, in OpenAI's wire form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringleader.errors import BadRequest, ContractFault
from ringleader.language.tool_choice import ToolChoice, normalise
from ringleader.values import Json, Tool


def normalize_tool_choice(choice: Json, names: Iterable[str]) -> Json:
    """`choice` as OpenAI's Chat Completions takes it, for a step whose tools are `names`.

    "auto", "none", "required", `{"type": "function", "function": {"name": ...}}`, or OpenAI's `allowed_tools`. None is
    "auto". A step without tools may say "auto" and "none"; neither belongs in a request without tools.

    Raises:
        ContractFault: (a ValueError) a tool is forced that is not among `names`, anything is forced and there are
            none, or the choice has no known form. The message names the choice and the set.
    """
    known = tuple(dict.fromkeys(names))
    if choice is None:
        return "auto"
    if isinstance(choice, Mapping) and choice.get("disable_parallel_tool_use") is True:
        message = (
            "tool_choice.disable_parallel_tool_use is no part of the choice here; ask for parallel_tool_calls=False"
        )
        raise ContractFault(message, param="tool_choice")
    try:
        read = normalise(choice, tuple(Tool(name) for name in known), parallel=True)
    except BadRequest as fault:
        message = str(fault) if known else f"tool_choice is {choice!r}, but the step's set of tools is empty"
        raise ContractFault(message, param="tool_choice", code=fault.code) from fault
    if not known:
        return "none" if choice in ("none", {"type": "none"}) else "auto"
    return _wire(read, known)


def _wire(read: ToolChoice, known: tuple[str, ...]) -> Json:
    if read.mode == "none":
        return "none"
    if read.mode == "required" and read.most == 1:  # one tool by its name: any other choice here permits several calls
        return _function(read.permitted[0])
    if read.permitted == known:
        return read.mode
    tools = [_function(name) for name in read.permitted]
    return {"type": "allowed_tools", "allowed_tools": {"mode": read.mode, "tools": tools}}


def _function(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}
