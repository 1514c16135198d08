"""Muse's messages: each part of an answer has a recipient, which makes it reasoning, a call, or words to the user.

The body of a call is a block of tags, strings as raw text. The prompt ends with `<|start|>assistant`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    Called,
    CallEvent,
    CallRule,
    Dialect,
    Frames,
    Marker,
    Part,
    Reasoning,
    Shape,
    Started,
    State,
    marker,
    raw_rule,
    several,
)
from ringleader.language.dialects.lexemes import ANYTHING
from ringleader.language.dialects.markup import Awaited
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

PARTS_MAX = 4  # of reasoning and of words before the call or the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Muse(Dialect):
    """` to=f<|message|>` and a block; `<|eom|><|start|>assistant` leads to the next part, an end token ends all."""

    start: Marker
    message: Marker
    next: Marker
    block: Marker
    form: TypedForm

    def answer(self, calls: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str | None:
        message = self.message.lark
        words = "analysis" if shape.content is not None or choice.mode == "required" else "(analysis | words)"
        last = {"required": "calls", "auto": "(calls | final)", "none": "final"}[choice.mode]
        lines = [
            f"start: {words}{{0,{PARTS_MAX}}} {last}",
            f'more: {self.next.lark} {self.start.lark} "assistant"',
            f'analysis: " to=self" {message} /{ANYTHING}/ more',
        ]
        if choice.mode != "required":
            lines += [f'words: " to=user" {message} /{ANYTHING}/ more', f'final: " to=user" {message} content']
            lines += [f"content: %json {shape.content}" if shape.content is not None else f"content: /{ANYTHING}/"]
        return "\n".join([*lines, *self._calls(calls, shape.raw, max(1, choice.least), choice.most)])

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(self._calls(calls, (), least, most))

    def _calls(self, calls: Sequence[CallRule], raw: Sequence[str], least: int, most: int) -> list[str]:
        """A message for each call. One of a client's own grammar is the only one: nothing but an end ends it."""
        ways = [f"call {several('another', '', least, most)}"] if calls else []
        ways += [f"raw_call_{n}" for n in range(len(raw))]
        lines = [f"calls: {' | '.join(ways)}"] if ways else []
        lines += [f"raw_call_{n}: {self._head(name)} {raw_rule(n)}" for n, name in enumerate(raw)]
        if calls:
            lines += ["another: more call", "call: " + " | ".join(f"call_to_{n}" for n in range(len(calls)))]
        for n, call in enumerate(calls):
            lines.append(
                f'call_to_{n}: {self._head(call.name)} {self.block.lark} "\\n" block_{n} {self.form.close.lark}'
            )
            lines.append(self.form.rules(f"block_{n}", [call]))
        return lines

    def _head(self, name: str) -> str:
        return f"{json.dumps(f' to={name}')} {self.message.lark}"

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MessageReader(self, schemas)

    def frames(self, schemas: Mapping[str, Json]) -> Frames:
        return Recipients(self, schemas)


class MessageReader:
    """A `BlockReader` of the body of a call's message. Its name is known from the header, and not told again."""

    def __init__(self, form: Muse, schemas: Mapping[str, Json]) -> None:
        self._awaited = Awaited([form.block.text])
        self._opened = False
        self._broken = False
        self._inner = TypedReader(form.form, schemas)

    @property
    def state(self) -> State:
        return "broken" if self._broken else self._inner.state

    def push(self, char: str) -> list[CallEvent]:
        if self._opened:
            return self._untold(self._inner.push(char))
        self._opened = self._awaited.push(char) is not None
        self._broken = self._awaited.broken
        return []

    def meet(self, marker: Marker) -> list[CallEvent]:
        if self._opened:
            return self._untold(self._inner.meet(marker))
        for char in marker.text:
            self.push(char)
        return []

    def _untold(self, events: list[CallEvent]) -> list[CallEvent]:
        return [event for event in events if not isinstance(event, Started)]


class Recipients:
    """Reads headers: ` to=f` before `<|message|>`. A message to nobody is to the user."""

    def __init__(self, form: Muse, schemas: Mapping[str, Json]) -> None:
        self._form, self._schemas = form, schemas
        self.markers = (form.start, form.message, form.next)
        self._header = ""

    def push(self, char: str) -> None:
        self._header += char

    def meet(self, marker: Marker) -> Part:
        header, self._header = self._header, ""
        if marker != self._form.message:
            return "header"
        name = next((word.removeprefix("to=") for word in header.split() if word.startswith("to=")), "user")
        if name == "self":
            return "reasoning"
        return "text" if name == "user" else Called(name, MessageReader(self._form, self._schemas))


def muse(tokenizer: Tokenizer) -> Muse:
    """The dialect for this vocabulary."""
    form = TypedForm(
        call_begin=marker(tokenizer, '<atem:invoke name="'),
        name_end=marker(tokenizer, '">\n'),
        key_begin=marker(tokenizer, '<atem:parameter name="'),
        key_end=marker(tokenizer, '">'),
        value_end=marker(tokenizer, "</atem:parameter>\n"),
        call_end=marker(tokenizer, "</atem:invoke>\n"),
        close=marker(tokenizer, "</atem:function_calls>"),
    )
    block = marker(tokenizer, "<atem:function_calls>")
    return Muse(
        name="muse",
        markers=tuple(mark for mark in (block, form.close) if mark.token is not None),
        start=marker(tokenizer, "<|start|>"),
        message=marker(tokenizer, "<|message|>"),
        next=marker(tokenizer, "<|eom|>"),
        block=block,
        form=form,
    )
