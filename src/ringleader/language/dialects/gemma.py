"""Gemma 4 and FunctionGemma: `call:f{a:...,n:3}` between markers, strings raw between quotes that are tokens.

Their templates sort all keys by name, in tools as in calls, so that is the order in which the models write them.
"""

from __future__ import annotations

import json
import re
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
    think_tags,
)
from ringleader.language.dialects.history import History
from ringleader.language.dialects.literal_reader import LiteralReader
from ringleader.language.dialects.literal_rules import LiteralRules, Spelling
from ringleader.language.dialects.markup import Awaited
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

HEAD = re.compile(r"\s*(call\s*:\s*)?[A-Za-z0-9_.\-]*\s*")  # of a call, or as much of it as there is yet
CALL = "call:"
# A template shows None in Python's spelling, a tool's description in JSON's.
WORDS: Mapping[bool | None, tuple[str, ...]] = {True: ("true",), False: ("false",), None: ("null", "None")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma(Dialect):
    """One block for each call, nothing between them."""

    close: Marker
    quote: Marker

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", "", least, most)
        spelling = Spelling(self.quote, assign=":", colon=":", comma=",", words=WORDS, bare_keys=True, ordered=True)
        lines = [
            f"calls: call {more}",
            f"calls_rest: call_rest {more}",
            f"call: {self.opens[0].marker.lark} call_rest",
            f"call_rest: {' | '.join(f'call_{n}' for n in range(len(calls)))}",
        ]
        for n, call in enumerate(calls):
            head = json.dumps(f"{CALL}{call.name}{{")
            lines.append(f'call_{n}: {head} arguments_{n} "}}" {self.close.lark}')
            lines += LiteralRules(f"arguments_{n}", call, spelling).lines
        return "\n".join(lines)

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return CallReader(self.close, self.quote)


class CallReader:
    """A `BlockReader` of one call.

    head -{-> arguments -}-> end -close-> done
    """

    def __init__(self, close: Marker, quote: Marker) -> None:
        self.state: State = "open"
        self._close = close
        self._place = "head"
        self._head = ""
        self._arguments = LiteralReader("}", quote, barewords=True)
        self._awaited = Awaited([] if close.token is not None else [close.text])

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._place == "head":
            return self._read_head(char)
        if self._place == "arguments":
            return self._read(self._arguments.push(char))
        if self._awaited.push(char) is not None:
            self.state = "done"
        elif self._awaited.broken:
            self.state = "broken"
        return []

    def meet(self, marker: Marker) -> list[CallEvent]:
        if self._place == "arguments":
            return self._read(self._arguments.meet(marker))
        self.state = "done" if self._place == "end" and marker == self._close else "broken"
        return []

    def _read_head(self, char: str) -> list[CallEvent]:
        name = self._head.strip().removeprefix("call").lstrip().removeprefix(":").strip()
        if char == "{" and name:
            self._place = "arguments"
            return [Started(name)]
        self._head += char
        if not HEAD.fullmatch(self._head):
            self.state = "broken"
        return []

    def _read(self, piece: str) -> list[CallEvent]:
        events: list[CallEvent] = [Arguments(piece)] if piece else []
        if self._arguments.broken:
            self.state = "broken"
        elif self._arguments.done:
            events.append(Ended())
            self._place = "end"
        return events


# ---------------------------------------------------------------- the history as text


def _history(opens: str, close: str, quote: str, result: tuple[str, str]) -> History:
    def spelled(value: Json) -> str:
        if isinstance(value, str):
            return f"{quote}{value}{quote}"
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{key}:{spelled(value[key])}" for key in sorted(value, key=str.lower)) + "}"
        if isinstance(value, list):
            return f"[{','.join(map(spelled, value))}]"
        return json.dumps(value)

    def describe(tools: Sequence[Json]) -> str:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        example = spelled({"parameter": "value", "number": 1})
        return (
            f"You can call functions. They are listed here, one JSON object a line:\n{listed}\n"
            f"To call one, write it in just this form:\n{opens}{CALL}name{example}{close}"
        )

    def write_call(name: str, arguments: Json) -> str:
        return f"{opens}{CALL}{name}{spelled(arguments) if isinstance(arguments, Mapping) else '{}'}{close}"

    return History(describe, write_call, lambda content: f"{result[0]}{spelled(content)}{result[1]}")


def gemma4(tokenizer: Tokenizer) -> Gemma:
    """Gemma 4's tokens; reasoning is a channel named `thought`."""
    opens, close, quote = (marker(tokenizer, text) for text in ("<|tool_call>", "<tool_call|>", '<|"|>'))
    channel = "<|channel>thought"
    return Gemma(
        name="gemma4",
        opens=(Opens(opens),),
        markers=(close, quote),
        close=close,
        quote=quote,
        thinking=Thinking(
            marker(tokenizer, channel), marker(tokenizer, "<channel|>"), channel in (tokenizer.chat_template or "")
        ),
        history=_history(opens.text, close.text, quote.text, ("<|tool_response>response{value:", "}<tool_response|>")),
    )


def function_gemma(tokenizer: Tokenizer) -> Gemma:
    """FunctionGemma's tokens."""
    texts = ("<start_function_call>", "<end_function_call>", "<escape>")
    opens, close, quote = (marker(tokenizer, text) for text in texts)
    result = ("<start_function_response>response{value:", "}<end_function_response>")
    return Gemma(
        name="function_gemma",
        opens=(Opens(opens),),
        markers=(close, quote),
        close=close,
        quote=quote,
        thinking=think_tags(tokenizer),
        history=_history(opens.text, close.text, quote.text, result),
    )
