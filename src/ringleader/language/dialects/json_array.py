"""Calls as one JSON array behind a marker: Granite 3's, Phi-4-mini's, and the older `functools[...]`.

Granite 4 writes JSON between tags instead. The templates of Phi show neither tools nor calls of the history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Marker,
    Opens,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.history import History, write_result
from ringleader.language.dialects.json_call import JsonBlock, object_rules
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

CALL, CALL_END = "<|tool_call|>", "<|/tool_call|>"
FUNCTOOLS = "functools["


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArray(Dialect):
    """`MARKER[{"name": "f", "arguments": {...}}, ...]`, then `close` where the family has it.

    `bracketed`: the array's bracket is a part of the marker. `lead` is text before the marker of a forced answer;
    `space`: one may stand after the marker.
    """

    close: Marker | None = None
    bracketed: bool = False
    lead: str = ""
    space: bool = False

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        lead = json.dumps(self.lead) if self.lead else ""
        bracket = "" if self.bracketed else '" "? "["' if self.space else '"["'
        close = self.close.lark if self.close is not None else ""
        return "\n".join(
            [
                f"calls: {lead} {self.opens[0].marker.lark} calls_rest",
                f'calls_rest: {bracket} call {several("call", ", ", least, most)} "]" {close}',
                object_rules("call", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        block = JsonBlock(self.close, array=True)
        if self.bracketed:
            block.push("[")
        return block


def granite(tokenizer: Tokenizer) -> JsonArray:
    """Granite 3: no closing marker. Its templates ask for reasoning only where there are no tools."""
    return JsonArray(
        name="granite",
        opens=(Opens(marker(tokenizer, CALL)),),
        history=History(_describe_marked, write_call, write_result, block=(CALL + "[", ", ", "]")),
    )


def phi4_mini(tokenizer: Tokenizer) -> JsonArray:
    """Phi-4-mini by its markers; `functools[...]` as plain text where the template teaches that."""
    template = tokenizer.chat_template or ""
    if FUNCTOOLS in template:
        return JsonArray(
            name="phi4_mini",
            opens=(Opens(marker(tokenizer, FUNCTOOLS)),),
            bracketed=True,
            lead=" " if f"' {FUNCTOOLS}" in template else "",
            thinking=think_tags(tokenizer),
            history=History(_describe_functools, write_call, write_result, block=(FUNCTOOLS, ", ", "]")),
        )
    close = marker(tokenizer, CALL_END)
    return JsonArray(
        name="phi4_mini",
        opens=(Opens(marker(tokenizer, CALL)),),
        markers=(close,),
        close=close,
        thinking=think_tags(tokenizer),
        history=History(_describe, write_call, _response, block=(CALL + "[", ", ", "]" + CALL_END)),
    )


# ---------------------------------------------------------------- history


def write_call(name: str, arguments: Json) -> str:
    """One object of the array. Arguments that were no JSON come as the string that they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(name)}, "arguments": {text}}}'


def _describe(tools: Sequence[Json]) -> str:
    """Where Phi's templates would put the tools if they were given with the system turn."""
    listed = json.dumps([tool["function"] for tool in tools], ensure_ascii=False)
    return f"You have some tools.<|tool|>{listed}<|/tool|>"


def _describe_functools(tools: Sequence[Json]) -> str:
    return _taught(tools, FUNCTOOLS)


def _describe_marked(tools: Sequence[Json]) -> str:
    return _taught(tools, CALL + "[")


def _taught(tools: Sequence[Json], begin: str) -> str:
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    form = '{"name": "the name", "arguments": {"parameter": "value"}}'
    return (
        f"You can call these functions, each given with the JSON schema of its parameters:\n{listed}\n"
        f"To call some, write nothing but a list of calls in just this form: {begin}{form}]"
    )


def _response(content: str) -> str:
    return f"<|tool_response|>{content}"
