"""Functionary 3.2's parts: a line with a recipient, which is all readers or a tool, and what is for it.

The prompt ends with the sign that begins a recipient, and it is plain text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    Called,
    CallRule,
    Dialect,
    Frames,
    Marker,
    Opens,
    Part,
    Reasoning,
    Shape,
    marker,
    raw_rule,
    several,
)
from ringleader.language.dialects.lexemes import ANYTHING, containing, until
from ringleader.language.dialects.marked_call import MarkedForm, MarkedReader
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

SIGN = ">>>"
ALL = "all\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionaryV32(Dialect):
    """`all\\n` and text, or `f\\n{...}`; before each part but the first stands `>>>`."""

    form: MarkedForm

    def answer(self, calls: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str | None:
        said = f"{json.dumps(ALL)} content"
        lines = self._calls(calls, shape.raw, max(1, choice.least), choice.most)
        if choice.mode == "required":
            return "\n".join(["start: calls_rest", *lines])
        if shape.content is not None:
            ways = [said, "calls_rest"] if choice.mode == "auto" else [said]
            return "\n".join([f"start: {' | '.join(ways)}", f"content: %json {shape.content}", *lines])
        if choice.mode == "none":
            return "\n".join([f"start: {said}", f"content: /{ANYTHING}/", *lines])
        lead, more = until("lead", self.opens[0].marker)
        lines += [f"start: calls_rest | {said} | {json.dumps(ALL)} {lead} calls_rest"]
        return "\n".join([*lines, *more, "content: CONTENT", f"CONTENT: /{ANYTHING}/ & ~{containing(SIGN)}"])

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join([*self._calls(calls, (), least, most), f"calls: {self.opens[0].marker.lark} calls_rest"])

    def _calls(self, calls: Sequence[CallRule], raw: Sequence[str], least: int, most: int) -> list[str]:
        """A call of a client's own grammar is the only one: nothing but an end ends it."""
        ways = [f"call {several('call', SIGN, least, most)}"] if calls else []
        ways += [f"raw_call_{n}" for n in range(len(raw))]
        lines = [f"calls_rest: {' | '.join(ways)}"] if ways else []
        lines += [f"raw_call_{n}: {json.dumps(name + chr(10))} {raw_rule(n)}" for n, name in enumerate(raw)]
        return [*lines, self.form.rules("call", calls)] if calls else lines

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MarkedReader(self.form)

    def frames(self, schemas: Mapping[str, Json]) -> Frames:
        return Recipients(self.form, schemas)


class Recipients:
    """Reads the first recipient; those that follow begin with the sign, which opens a block in text."""

    markers: tuple[Marker, ...] = ()

    def __init__(self, form: MarkedForm, schemas: Mapping[str, Json]) -> None:
        self._form = form
        self._known = {ALL, *(f"{name}\n" for name in schemas)}
        self._header = ""

    def push(self, char: str) -> Part | None:
        self._header = (self._header + char).removeprefix(SIGN)
        if self._header == ALL:
            return "text"
        if self._header in self._known:
            return Called(self._header.strip(), MarkedReader(self._form, begun=True))
        begun = SIGN.startswith(self._header) or any(known.startswith(self._header) for known in self._known)
        return None if begun else "unframed"

    def meet(self, marker: Marker) -> Part:
        return "header"


def functionary_v32(tokenizer: Tokenizer) -> FunctionaryV32:
    """The dialect for this vocabulary."""
    begin = marker(tokenizer, SIGN)
    form = MarkedForm(begin=begin, middle=marker(tokenizer, "\n"), end=None, close=None, opened=True)
    return FunctionaryV32(name="functionary_v32", opens=(Opens(begin),), form=form)
