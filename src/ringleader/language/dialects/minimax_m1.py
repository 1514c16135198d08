"""MiniMax M1's calls: one block of them between tags, a JSON object on a line for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallEvent,
    CallRule,
    Dialect,
    Marker,
    Opens,
    State,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.json_call import STRAY, JsonBlock, object_rules
from ringleader.language.dialects.markup import Awaited
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimaxM1(Dialect):
    """`<tool_calls>\\n{"name": "f", "arguments": {...}}\\n</tool_calls>`, with as many lines as calls."""

    close: Marker

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(
            [
                f"calls: {self.opens[0].marker.lark} calls_rest",
                f'calls_rest: "\\n" call {several("call", chr(10), least, most)} "\\n" {self.close.lark}',
                object_rules("call", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return LinesReader(self.close)


class LinesReader:
    """A `BlockReader` of one call object after the other, up to the closing marker."""

    def __init__(self, close: Marker) -> None:
        self.state: State = "open"
        self._close = close
        self._call: JsonBlock | None = None
        self._awaited = self._between()

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._call is None:
            found = self._awaited.push(char)
            if found != "{":
                self.state = "broken" if self._awaited.broken else "open" if found is None else "done"
                return []
            self._call = JsonBlock(None)
        events = self._call.push(char)
        if self._call.state == "broken":
            self.state = "broken"
        elif self._call.state == "done":
            self._call, self._awaited = None, self._between()
        return events

    def meet(self, marker: Marker) -> list[CallEvent]:
        self.state = "done" if marker == self._close and self._call is None else "broken"
        return []

    def _between(self) -> Awaited:
        return Awaited(["{", *([] if self._close.token is not None else [self._close.text])], STRAY)


def minimax_m1(tokenizer: Tokenizer) -> MinimaxM1:
    """The dialect for this vocabulary."""
    close = marker(tokenizer, "</tool_calls>")
    return MinimaxM1(
        name="minimax_m1",
        opens=(Opens(marker(tokenizer, "<tool_calls>")),),
        markers=(close,),
        close=close,
        thinking=think_tags(tokenizer),
    )
