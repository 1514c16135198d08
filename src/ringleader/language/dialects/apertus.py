"""Apertus' calls: a JSON array of objects whose one key is the tool's name."""

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
    Thinking,
    marker,
    several,
)
from ringleader.language.dialects.json_call import ArgumentsReader
from ringleader.language.dialects.markup import Awaited
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Apertus(Dialect):
    """`<|tools_prefix|>[{"f": {...}}, ...]<|tools_suffix|>`."""

    close: Marker

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        lines = [
            f"calls: {self.opens[0].marker.lark} calls_rest",
            f'calls_rest: "[" call {several("call", ", ", least, most)} "]" {self.close.lark}',
            "call: " + " | ".join(f"call_{n}" for n in range(len(calls))),
        ]
        for n, call in enumerate(calls):
            head = json.dumps(f"{{{json.dumps(call.name)}: ")
            lines += [f'call_{n}: {head} call_arguments_{n} "}}"', f"call_arguments_{n}: %json {call.text}"]
        return "\n".join(lines)

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return KeyedReader(self.close)


class KeyedReader:
    """A `BlockReader` of such an array.

    open -[-> call -{"-> name -"-> colon -:-> arguments -whole-> close -}-> more -,-> call
                                                                            more -]-> end -close-> done
    """

    def __init__(self, close: Marker) -> None:
        self.state: State = "open"
        self._close = close
        self._whole = False  # the array: only the closing marker can come
        self._name: str | None = None  # while it is read
        self._arguments: ArgumentsReader | None = None
        self._awaited = Awaited(["["])

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._arguments is not None:
            return self._read_arguments(self._arguments, char)
        if self._name is not None:
            return self._read_name(char)
        found = self._awaited.push(char)
        if self._awaited.broken:
            self.state = "broken"
        if found is not None:
            self._pass(found)
        return []

    def meet(self, marker: Marker) -> list[CallEvent]:
        self.state = "done" if self._whole and marker == self._close else "broken"
        return []

    def _pass(self, found: str) -> None:
        following = {"[": ["{"], ",": ["{"], "}": [",", "]"]}
        if found == "{":
            self._awaited = Awaited(['"'])
        elif found == '"':
            self._name = '"'
        elif found == ":":
            self._arguments = ArgumentsReader()
        elif found == "]":
            self._whole = True
            self._awaited = Awaited([] if self._close.token is not None else [self._close.text])
        elif found in following:
            self._awaited = Awaited(following[found])
        else:
            self.state = "done"

    def _read_name(self, char: str) -> list[CallEvent]:
        assert self._name is not None
        self._name += char
        if char != '"' or self._name.endswith('\\"'):
            return []
        try:
            name = json.loads(self._name)
        except ValueError:
            self.state = "broken"
            return []
        self._name, self._awaited = None, Awaited([":"])
        return [Started(name)]

    def _read_arguments(self, arguments: ArgumentsReader, char: str) -> list[CallEvent]:
        piece = arguments.push(char)
        events: list[CallEvent] = [Arguments(piece)] if piece else []
        if arguments.broken:
            self.state = "broken"
        elif arguments.done:
            events.append(Ended())
            self._arguments, self._awaited = None, Awaited(["}"])
        return events


def apertus(tokenizer: Tokenizer) -> Apertus:
    """The dialect for this vocabulary. It reasons only if its system turn says so, which its template leaves out."""
    close = marker(tokenizer, "<|tools_suffix|>")
    thinking = Thinking(marker(tokenizer, "<|inner_prefix|>"), marker(tokenizer, "<|inner_suffix|>"), expected=False)
    opens = (Opens(marker(tokenizer, "<|tools_prefix|>")),)
    return Apertus(name="apertus", opens=opens, markers=(close,), close=close, thinking=thinking)
