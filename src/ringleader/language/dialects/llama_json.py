"""Llama 3.1 to 3.3 and Llama 4: a call is a bare JSON object, and it is the whole answer.

Nothing marks its begin but its own first key, nothing its end but the end of the turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    Arguments,
    BlockReader,
    CallEvent,
    CallRule,
    Dialect,
    Ended,
    Marker,
    Opens,
    Started,
    State,
    marker,
    several,
)
from ringleader.language.dialects.history import TAGGED, History
from ringleader.language.dialects.json_call import JsonCallReader, Keys
from ringleader.language.dialects.markup import WHITESPACE
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

BRACE, NAME, PARAMETERS = "{", '"name"', '"parameters"'
# How these models begin a call: as they are shown, as a tool's own description begins, or in other spacing.
BEGINS = ('{"name"', '{"type": "function"', '{ "name"', '{\n    "name"')
BETWEEN = "; "  # the usual text between several calls; no template of the family shows one
STRAY = WHITESPACE + ";,"
KEYS = Keys(arguments=("parameters", "arguments"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaJson(Dialect):
    """`{"name": "f", "parameters": {...}}`, after `<|python_tag|>` or not.

    Free text cannot begin with `{"name"`: a model that writes that means to call. In a later place it is text.
    """

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", BETWEEN, least, most)
        lines = [f"calls: call {more}", f"call: {json.dumps(BRACE)} {json.dumps(NAME)} call_rest"]
        for n, opens in enumerate(self.opens):
            rule = "calls_rest" if n == 0 else f"calls_rest_{n}"
            if not opens.kept:  # the whole object follows
                lines.append(f"{rule}: calls")
            elif opens.marker.text.endswith(NAME):
                lines.append(f"{rule}: call_rest {more}")
            else:
                lines.append(f'{rule}: ", " {json.dumps(NAME)} call_rest {more}')
        lines.append("call_rest: " + " | ".join(f"call_rest_{n}" for n in range(len(calls))))
        for n, call in enumerate(calls):
            # In the pieces in which JSON itself is read, so that an answer that may be other JSON can part from it.
            name = json.dumps(json.dumps(call.name))
            lines.append(f'call_rest_{n}: ": " {name} ", " {json.dumps(PARAMETERS)} ": " call_arguments_{n} "}}"')
            lines.append(f"call_arguments_{n}: %json {call.text}")
        return "\n".join(lines)

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return ObjectsReader()


class ObjectsReader:
    """A `BlockReader` of call objects one after another, to the end of the answer.

    A call begins when its arguments do: until then the object may be an answer in JSON, with a "name" of its own.
    """

    def __init__(self) -> None:
        self.state: State = "open"
        self._call = JsonCallReader(KEYS)
        self._started = False
        self._within = True  # an object, not between two of them

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open" or (not self._within and char in STRAY):
            return []
        if not self._within:
            self._call, self._started, self._within = JsonCallReader(KEYS), False, True
        events: list[CallEvent] = []
        piece = self._call.push(char)
        if self._call.broken or (self._call.done and not self._call.has_arguments):
            self.state = "broken"
            return []
        if piece and not self._started and self._call.name is not None:
            events.append(Started(self._call.name))
            self._started = True
        if piece:
            events.append(Arguments(piece))
        if self._call.done:
            events.append(Ended())
            self._within = False
        return events

    def meet(self, marker: Marker) -> list[CallEvent]:
        self.state = "broken"
        return []


def _in_pieces(text: str) -> Marker:
    """A begin of an object as a marker of text, in the pieces in which JSON is read."""
    rest = text[1:]
    gap = rest[: len(rest) - len(rest.lstrip())]
    parts = rest.strip().split(": ")
    keys = [piece for part in parts for piece in (part, ": ")][:-1]
    return Marker(text, None, (BRACE, *([gap] if gap else []), *keys))


def describe_tools(tools: Sequence[Json]) -> str:
    """The system text that teaches the form, for templates that know no tools."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        f"You can call functions. They are listed here, one JSON object a line:\n{listed}\n"
        "To call a function, answer with one JSON object and nothing else, in just this form:\n"
        '{"name": "the name", "parameters": {"parameter": "value"}}'
    )


def write_call(name: str, arguments: Json) -> str:
    """A call of the history as text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(name)}, "parameters": {text}}}'


def llama_json(tokenizer: Tokenizer) -> LlamaJson:
    """The dialect for this vocabulary."""
    return LlamaJson(
        name="llama_json",
        opens=(
            Opens(marker(tokenizer, "<|python_tag|>")),
            *(Opens(_in_pieces(text), first=True, kept=True) for text in BEGINS),
        ),
        history=History(describe_tools, write_call, TAGGED.write_result),
    )
