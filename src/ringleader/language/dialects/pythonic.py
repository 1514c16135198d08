"""Calls as Python writes them, `f(a="x", n=1)`: Llama's and Gemma's lists, LFM2's between tokens, Olmo 3's in tags."""

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
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.history import History
from ringleader.language.dialects.literal_reader import LiteralReader
from ringleader.language.dialects.literal_rules import LiteralRules, Spelling
from ringleader.language.dialects.markup import WHITESPACE, Awaited
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

NAME = "[A-Za-z0-9_.\\-]+"
NAME_CHAR = re.compile(NAME)
# Templates of these families write Python's words for plain arguments and JSON's inside of objects.
PYTHON = Spelling(
    quote=None,
    assign="=",
    colon=": ",
    comma=", ",
    words={True: ("True", "true"), False: ("False", "false"), None: ("None", "null")},
    bare_keys=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pythonic(Dialect):
    """`[f(a="x"), g()]` between markers, after none, or (`bracketed` False) a call on each line between tags.

    A bare list is the whole answer: free text cannot begin with `[name(`.
    """

    bracketed: bool
    close: Marker | None

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        opens = self.opens[0]
        more = several("call", ", " if self.bracketed else "\n", least, most)
        begin, end = ('"["', '"]"') if self.bracketed else ('"\\n"?', '"\\n"?')
        begin = "" if opens.kept else begin
        close = "" if self.close is None else self.close.lark
        lines = [f"calls: {opens.marker.lark} calls_rest", f"calls_rest: {begin} call {more} {end} {close}"]
        lines.append("call: " + " | ".join(f"call_{n}" for n in range(len(calls))))
        for n, call in enumerate(calls):
            lines.append(f'call_{n}: {json.dumps(call.name)} "(" call_{n}_end')
            lines.append(f'call_{n}_end: arguments_{n} ")"')
            lines.append(f"rest_{n}: call_{n}_end {more} {end} {close}")
            lines += LiteralRules(f"arguments_{n}", call, PYTHON).lines
        return "\n".join(lines)

    def heads(self, calls: Sequence[CallRule]) -> Mapping[str, str]:
        return {f"[{call.name}(": f"rest_{n}" for n, call in enumerate(calls)}

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return CallsReader(self.bracketed, self.close)


class CallsReader:
    """A `BlockReader` of Python calls, in a list or line by line.

    begin -[-> name -(-> arguments -)-> between -,-> name      between -]-> end -close-> done
    """

    def __init__(self, bracketed: bool, close: Marker | None) -> None:
        self.state: State = "open"
        self._close = close
        self._place = "begin" if bracketed else "between"
        self._name = ""
        self._arguments = LiteralReader(")")
        self._awaited = self._end()

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._place == "arguments":
            return self._read_arguments(char)
        if self._place == "name" and (self._name or char not in WHITESPACE):
            return self._read_name(char)
        if self._place == "end":
            self._await(char)
        elif char not in WHITESPACE:
            self._read_mark(char)
        return []

    def meet(self, marker: Marker) -> list[CallEvent]:
        closes = marker == self._close and self._place in {"begin", "between", "end"}
        self.state = "done" if closes else "broken"
        return []

    def _end(self) -> Awaited:
        return Awaited([] if self._close is None or self._close.token is not None else [self._close.text.strip()])

    def _await(self, char: str) -> None:
        if self._awaited.push(char) is not None:
            self.state = "done"
        elif self._awaited.broken:
            self.state = "broken"

    def _read_mark(self, char: str) -> None:
        if (self._place == "begin" and char == "[") or (self._place == "between" and char in ",;"):
            self._place = "name"
        elif self._place == "between" and char == "]":
            self._place = "end"
            self.state = "done" if self._close is None else "open"
        elif self._place in {"begin", "between"} and self._close is not None and NAME_CHAR.fullmatch(char):
            self._place, self._name = "name", char
        elif self._place == "between":
            self._place = "end"
            self._await(char)
        else:
            self.state = "broken"

    def _read_name(self, char: str) -> list[CallEvent]:
        if char == "(" and self._name:
            name, self._name = self._name, ""
            self._place, self._arguments = "arguments", LiteralReader(")")
            return [Started(name)]
        if NAME_CHAR.fullmatch(char):
            self._name += char
        else:
            self.state = "broken"
        return []

    def _read_arguments(self, char: str) -> list[CallEvent]:
        piece = self._arguments.push(char)
        events: list[CallEvent] = [Arguments(piece)] if piece else []
        if self._arguments.broken:
            self.state = "broken"
        elif self._arguments.done:
            events.append(Ended())
            self._place, self._awaited = "between", self._end()
        return events


# ---------------------------------------------------------------- the history as text


def _history(begin: str, end: str, separator: str, result: tuple[str, str]) -> History:
    """How calls stand in text between `begin` and `end`."""

    def describe(tools: Sequence[Json]) -> str:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        example = separator.join(['name(parameter="value", number=1)', "other_name()"])
        return (
            f"You can call functions. They are listed here, one JSON object a line:\n{listed}\n"
            f"To call functions, write them as in Python, in just this form:\n{begin}{example}{end}"
        )

    def write_call(name: str, arguments: Json) -> str:
        given = arguments if isinstance(arguments, Mapping) else {}
        pairs = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items()]
        return f"{name}({', '.join(pairs)})"

    return History(
        describe, write_call, lambda content: f"{result[0]}{content}{result[1]}", block=(begin, separator, end)
    )


def pythonic(tokenizer: Tokenizer) -> Pythonic:
    """A bare list, as Llama 3.2, Llama 4 and Gemma 3 are asked for it."""
    return Pythonic(
        name="pythonic",
        opens=(Opens(marker(tokenizer, "["), first=True, kept=True, then=f"{NAME}\\("),),
        bracketed=True,
        close=None,
        history=_history("[", "]", ", ", ("<tool_response>\n", "\n</tool_response>")),
    )


def lfm2(tokenizer: Tokenizer) -> Pythonic:
    """LFM2: the list between two tokens."""
    close = marker(tokenizer, "<|tool_call_end|>")
    return Pythonic(
        name="lfm2",
        opens=(Opens(marker(tokenizer, "<|tool_call_start|>")),),
        markers=(close,),
        bracketed=True,
        close=close,
        thinking=think_tags(tokenizer),
        history=_history(
            "<|tool_call_start|>[", "]<|tool_call_end|>", ", ", ("<|tool_response_start|>", "<|tool_response_end|>")
        ),
    )


def olmo3(tokenizer: Tokenizer) -> Pythonic:
    """Olmo 3: a call on each line between tags."""
    close = marker(tokenizer, "</function_calls>")
    return Pythonic(
        name="olmo3",
        opens=(Opens(marker(tokenizer, "<function_calls>")),),
        markers=(close,),
        bracketed=False,
        close=close,
        thinking=think_tags(tokenizer),
        history=_history("<function_calls>", "</function_calls>", "\n", ("<function_results>", "</function_results>")),
    )
