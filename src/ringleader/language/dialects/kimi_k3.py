"""Kimi K3's tags: all of an answer stands in channels (reasoning, words, calls), opened and closed by three tokens.

Each argument names its JSON type; a string is raw text. No release has a chat template in jinja: see
`default_templates`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    Called,
    CallRule,
    Dialect,
    Frames,
    Marker,
    Part,
    Reasoning,
    Shape,
    Thinking,
    marker,
    raw_rule,
    several,
)
from ringleader.language.dialects.lexemes import ANYTHING
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

OPEN, CLOSE, SEP = "<|open|>", "<|close|>", "<|sep|>"
TYPES = ("string", "number", "boolean", "null", "array", "object")
TOOL = re.compile(r'call\b.*\btool="([^"]*)"', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiK3(Dialect):
    """`<|open|>tools<|sep|>`, for each call `<|open|>call tool="f" index="1"<|sep|>` and arguments of the form
    `<|open|>argument key="a" type="string"<|sep|>VALUE<|close|>argument<|sep|>`. Words, even if there are none,
    stand in a `response` before it."""

    open: Marker
    close: Marker
    sep: Marker
    form: TypedForm

    def answer(self, calls: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str | None:
        silent = f"{self._opened('response')} {self._closed('response')}"
        said = f"{self._opened('response')} content {self._closed('response')}"
        ways = {
            "required": f"{silent} calls bye?",
            "auto": f"{said} calls? bye?" if shape.content is None else f"({said} | {silent} calls) bye?",
            "none": f"{said} bye?",
        }
        thought = {"possible": "think?", "begun": "thought", "over": ""}[reasoning]
        lines = [
            f"start: {thought} {ways[choice.mode]}",
            f"think: {self._opened('think')} thought",
            f"thought: /{ANYTHING}/ {self._closed('think')}",
            f"bye: {self._closed('message')}",
        ]
        if choice.mode != "required":
            lines += [f"content: %json {shape.content}" if shape.content is not None else f"content: /{ANYTHING}/"]
        return "\n".join([*lines, *self._calls(calls, shape.raw, max(1, choice.least), choice.most)])

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(self._calls(calls, (), least, most))

    def _calls(self, calls: Sequence[CallRule], raw: Sequence[str], least: int, most: int) -> list[str]:
        """Numbered from 1. A call of a client's own grammar is the only one: nothing but an end ends it."""
        ways = [f"first {several('more', '', least, most)} {self._closed('tools')}"] if calls else []
        ways += [f"raw_call_{n}" for n in range(len(raw))]
        lines = [f"calls: {self._opened('tools')} ({' | '.join(ways)})"] if ways else []
        lines += [f"raw_call_{n}: {self._head(name, '1')} {self.sep.lark} {raw_rule(n)}" for n, name in enumerate(raw)]
        for rule, index in (("first", "1"), ("more", "")) if calls else ():
            heads = [f"{self._head(call.name, index)} {self.sep.lark} call_{n}" for n, call in enumerate(calls)]
            lines.append(f"{rule}: {' | '.join(heads)}")
        return [*lines, *(self.form.body(f"call_{n}", call) for n, call in enumerate(calls))]

    def _head(self, name: str, index: str) -> str:
        begin = f'call tool="{_attribute(name)}" index="'
        if index:
            return f"{self.open.lark} {json.dumps(begin + index + chr(34))}"
        return f'{self.open.lark} {json.dumps(begin)} /[1-9][0-9]{{0,3}}/ "\\""'

    def _opened(self, tag: str) -> str:
        return f'{self.open.lark} "{tag}" {self.sep.lark}'

    def _closed(self, tag: str) -> str:
        return f'{self.close.lark} "{tag}" {self.sep.lark}'

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return TypedReader(self.form, schemas)

    def frames(self, schemas: Mapping[str, Json]) -> Frames:
        return Channels(self, schemas)


class Channels:
    """Reads tags: what an opening one holds follows it. What stands between others is nothing."""

    def __init__(self, form: KimiK3, schemas: Mapping[str, Json]) -> None:
        self._form, self._schemas = form, schemas
        self.markers = (form.open, form.close, form.sep)
        self._opening = False
        self._tag = ""

    def push(self, char: str) -> None:
        self._tag += char

    def meet(self, marker: Marker) -> Part:
        tag, opening = self._tag, self._opening
        self._tag, self._opening = "", marker == self._form.open
        if marker != self._form.sep or not opening:
            return "header"
        if tag.strip() == "think":
            return "reasoning"
        found = TOOL.match(tag)
        if found is None:
            return "text" if tag.strip() == "response" else "header"
        name = _meant(found[1])
        return Called(name, TypedReader(self._form.form, self._schemas, name))


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


def _meant(text: str) -> str:
    return text.replace("&quot;", '"').replace("&amp;", "&")


def kimi_k3(tokenizer: Tokenizer) -> KimiK3:
    """The dialect for this vocabulary."""

    def found(text: str) -> Marker:
        return marker(tokenizer, text)

    end = found(f"{CLOSE}call{SEP}")
    form = TypedForm(
        call_begin=found(f'{OPEN}call tool="'),
        name_end=found(f'"{SEP}'),
        key_begin=found(f'{OPEN}argument key="'),
        key_end=found(f'" type="string"{SEP}'),
        typed_ends=tuple((kind, found(f'" type="{kind}"{SEP}')) for kind in TYPES),
        value_end=found(f"{CLOSE}argument{SEP}"),
        call_end=end,
        close=end,
        spelled=_attribute,
        meant=_meant,
    )
    tokens = (found(OPEN), found(CLOSE), found(SEP))
    return KimiK3(
        name="kimi_k3",
        markers=tokens,
        open=tokens[0],
        close=tokens[1],
        sep=tokens[2],
        thinking=Thinking(found(f"{OPEN}think{SEP}"), found(f"{CLOSE}think{SEP}"), expected=True),
        form=form,
    )
