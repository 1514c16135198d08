"""Calls as one JSON array between two tags: Nemotron Nano 2, Apriel; and behind words, as Cohere's Command R+ does."""

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
    Thinking,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.json_array import JsonArray
from ringleader.language.dialects.json_call import JsonBlock, Keys, object_rules
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

REASONING, RESPONSE = "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"
ACTION = "Action:\n```json\n"
INDENT = " " * 4


def nemotron(tokenizer: Tokenizer) -> JsonArray:
    """`<TOOLCALL>[{"name": "f", "arguments": {...}}, ...]</TOOLCALL>`."""
    return _between(tokenizer, "nemotron", "TOOLCALL", "", think_tags(tokenizer))


def apriel(tokenizer: Tokenizer) -> JsonArray:
    """`<tool_calls>[...]</tool_calls>`, on a new line. It reasons first, and says where its response begins."""
    thinking = Thinking(
        marker(tokenizer, REASONING), marker(tokenizer, RESPONSE), RESPONSE in (tokenizer.chat_template or "")
    )
    return _between(tokenizer, "apriel", "tool_calls", "\n", thinking)


def _between(tokenizer: Tokenizer, name: str, tag: str, lead: str, thinking: Thinking) -> JsonArray:
    close = marker(tokenizer, f"</{tag}>")
    opens = (Opens(marker(tokenizer, f"<{tag}>")),)
    return JsonArray(name=name, opens=opens, markers=(close,), close=close, lead=lead, thinking=thinking)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionList(Dialect):
    """A fenced list of `{"tool_name": "f", "parameters": {...}}` after the word "Action:", each key on its line."""

    close: Marker

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        rest = f'"[\\n" call {several("call", chr(44) + chr(10), least, most)} "\\n]" {self.close.lark}'
        lines = [f'calls: "\\n" {self.opens[0].marker.lark} calls_rest']
        lines += [f"calls_rest{f'_{n}' if n else ''}: {rest}" for n in range(len(self.opens))]
        keys = Keys(name=("tool_name",), arguments=("parameters",))
        return "\n".join([*lines, f"call: {json.dumps(INDENT)} action", object_rules("action", calls, keys)])

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return JsonBlock(self.close, array=True, keys=Keys(name=("tool_name",), arguments=("parameters",)))


def command_r_plus(tokenizer: Tokenizer) -> ActionList:
    """The dialect for this vocabulary."""
    close = marker(tokenizer, "```")
    spellings = (ACTION, "Action:```json\n", "Action: ```json\n")
    opens = tuple(Opens(marker(tokenizer, text)) for text in spellings)
    return ActionList(name="command_r_plus", opens=opens, markers=(close,), close=close)
