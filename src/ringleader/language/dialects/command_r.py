"""Cohere's Command R7B, Command A and later: actions as a JSON array, and all that is written in markers of its own."""

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
from ringleader.language.dialects.json_call import JsonBlock, Keys
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

KEYS = Keys(name=("tool_name",), arguments=("parameters",))
LINE = "\n    "  # before each action
NUMBERED = json.dumps('{"tool_call_id": "')
NUMBER = "/[0-9]{1,4}/"  # of a call: the model counts those of the whole conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandR(Dialect):
    """`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {...}}, ...]<|END_ACTION|>`, each
    action on a line of its own."""

    close: Marker

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        begin, end = json.dumps("[" + LINE), json.dumps("\n]")
        lines = [
            f"calls: {self.opens[0].marker.lark} calls_rest",
            f"calls_rest: {begin} call {several('call', ',' + LINE, least, most)} {end} {self.close.lark}",
            "call: " + " | ".join(f"call_{n}" for n in range(len(calls))),
        ]
        for n, call in enumerate(calls):
            name = json.dumps(f'", "tool_name": {json.dumps(call.name)}, "parameters": ')
            lines.append(f'call_{n}: {NUMBERED} {NUMBER} {name} call_parameters_{n} "}}"')
            lines.append(f"call_parameters_{n}: %json {call.text}")
        return "\n".join(lines)

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return JsonBlock(self.close, array=True, keys=KEYS)


def command_r(tokenizer: Tokenizer) -> CommandR:
    """The dialect for this vocabulary. What stands around text changed its name after Command A."""
    kind = "TEXT" if "<|START_TEXT|>" in (tokenizer.chat_template or "") else "RESPONSE"
    around = (marker(tokenizer, f"<|START_{kind}|>"), marker(tokenizer, f"<|END_{kind}|>"))
    close = marker(tokenizer, "<|END_ACTION|>")
    return CommandR(
        name="command_r",
        opens=(Opens(marker(tokenizer, "<|START_ACTION|>")),),
        markers=(close,),
        close=close,
        around=around if all(mark.token is not None for mark in around) else (),
        thinking=think_tags(tokenizer, "<|START_THINKING|>", "<|END_THINKING|>"),
    )
