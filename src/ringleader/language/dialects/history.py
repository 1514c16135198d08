"""Tools, calls and results as text: for models whose chat template cannot show them in its own way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ringleader.values import Json

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class History:
    """How one family's conversation is written by us. `block` is the text before, between and after the calls of one
    turn. `ids` is the shape of call ids that its templates want:
    any, or Kimi's `functions.NAME:INDEX` that counts through the conversation, or each turn from 0 (nine letters and
    digits are found by asking the template)."""

    describe: Callable[[Sequence[Json]], str]
    write_call: Callable[[str, Json], str]
    write_result: Callable[[str], str]
    ids: Literal["any", "indexed", "indexed_by_turn"] = "any"
    block: tuple[str, str, str] = ("", "\n", "")

    def write_calls(self, calls: Sequence[tuple[str, Json]]) -> str:
        """The calls of one turn, by name and arguments."""
        before, between, after = self.block
        return before + between.join(self.write_call(name, arguments) for name, arguments in calls) + after


def describe_tools(tools: Sequence[Json]) -> str:
    """The system text that teaches the form to a model whose template knows no tools."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "You can call tools. They are listed between <tools> and </tools>, one JSON object a line, each with a "
        f"JSON schema of its parameters:\n<tools>\n{listed}\n</tools>\n"
        "To call a tool, write its name and its arguments as JSON between tags, in just this form, "
        "one block for each call:\n"
        f'{CALL_OPEN}\n{{"name": "the name", "arguments": {{"parameter": "value"}}}}\n{CALL_CLOSE}\n'
        "The results are then given to you between <tool_response> and </tool_response>."
    )


def write_call(name: str, arguments: Json) -> str:
    """A call of the history as text. Arguments that were no JSON come as the string that they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{CALL_OPEN}\n{{"name": {json.dumps(name)}, "arguments": {text}}}\n{CALL_CLOSE}'


def write_result(content: str) -> str:
    """A tool's result as text, for a user turn."""
    return f"<tool_response>\n{content}\n</tool_response>"


TAGGED = History(describe_tools, write_call, write_result)
