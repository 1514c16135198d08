"""Hermes and Qwen style calls: JSON between <tool_call> tags. Also the fallback for models that know no tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import CallReader, CallRule, Marker, marker
from ringleader.language.dialects.json_call import JsonCallReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class JsonTags:
    """`<tool_call>\\n{"name": "f", "arguments": {...}}\\n</tool_call>`, one block for each call."""

    call_open: Marker
    call_close: Marker
    think_open: Marker
    think_close: Marker
    thinks: bool

    def call_rules(self, calls: Sequence[CallRule]) -> str:
        bodies = " | ".join(f"call_{n}" for n in range(len(calls)))
        lines = [
            f"call: {self.call_open.lark} call_rest",
            f'call_rest: "\\n" ({bodies}) "\\n" {self.call_close.lark}',
        ]
        for n, call in enumerate(calls):
            # Schemas stand alone and not inside a wrapper's, so that their `$ref: "#/..."` still point right.
            head = json.dumps(f'{{"name": {json.dumps(call.name)}, "arguments": ')
            lines += [f'call_{n}: {head} arguments_{n} "}}"', f"arguments_{n}: %json {call.schema}"]
        return "\n".join(lines)

    def separator(self) -> str:
        return "\n"

    def reader(self) -> CallReader:
        return JsonCallReader()


def json_tags(tokenizer: Tokenizer) -> JsonTags:
    """The dialect for this vocabulary; it reasons if the chat template speaks of a thinking tag."""
    return JsonTags(
        call_open=marker(tokenizer, CALL_OPEN),
        call_close=marker(tokenizer, CALL_CLOSE),
        think_open=marker(tokenizer, THINK_OPEN),
        think_close=marker(tokenizer, THINK_CLOSE),
        thinks=any(tag in (tokenizer.chat_template or "") for tag in (THINK_OPEN, THINK_CLOSE)),
    )


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
