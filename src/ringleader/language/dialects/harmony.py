"""The harmony form of gpt-oss: every part of an answer is a message on a channel, calls are messages to a tool.

The analysis channel is reasoning, commentary to `functions.NAME` a call, everything else text. A call ends the
answer (`<|call|>` is an end token), so there is one in an answer. The prompt ends with `<|start|>assistant`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    Arguments,
    BlockReader,
    Called,
    CallEvent,
    CallRule,
    Dialect,
    Ended,
    Frames,
    Marker,
    Part,
    Reasoning,
    Shape,
    State,
    marker,
    raw_rule,
)
from ringleader.language.dialects.json_call import ArgumentsReader
from ringleader.language.dialects.lexemes import ANYTHING
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

NAMESPACE = "functions."
PARTS_MAX = 4  # of reasoning and of words before the call or the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony(Dialect):
    """`call_ends`: `<|call|>` is among the tokenizer's end tokens, which no grammar may write."""

    start: Marker
    channel: Marker
    message: Marker
    constrain: Marker
    end: Marker
    call: Marker
    call_ends: bool

    def answer(self, calls: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str | None:
        channel, message = self.channel.lark, self.message.lark
        parts, last = {
            "required": ("analysis", "calls"),
            "auto": ("(analysis | words)", "(calls | final)"),
            "none": ("(analysis | words)", "final"),
        }[choice.mode]
        lines = [
            f"start: {parts}{{0,{PARTS_MAX}}} {last}",
            f'analysis: {channel} "analysis" {message} /{ANYTHING}/ {self.end.lark} {self.start.lark} "assistant"',
        ]
        if choice.mode != "required":
            words = "analysis" if shape.content else "words"
            lines[0] = lines[0].replace("words", words)
            lines.append(
                f'words: {channel} "commentary" {message} /{ANYTHING}/ {self.end.lark} {self.start.lark} "assistant"'
            )
            lines.append(f'final: {channel} "final" {message} content')
            lines.append(f"content: %json {shape.content}" if shape.content else f"content: /{ANYTHING}/")
        return "\n".join([*lines, *self._calls(calls, shape.raw)])

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(self._calls(calls, ()))

    def _calls(self, calls: Sequence[CallRule], raw: Sequence[str]) -> list[str]:
        if not calls and not raw:
            return []
        end, message = "" if self.call_ends else self.call.lark, self.message.lark
        names = [*(f"call_{n}" for n in range(len(calls))), *(f"raw_call_{n}" for n in range(len(raw)))]
        lines = [f"calls: {' | '.join(names)}", f'json: (" json" | " "? {self.constrain.lark} "json")?']
        for n, call in enumerate(calls):
            lines.append(f"call_{n}: {self._head(call.name)} json {message} arguments_{n} {end}")
            lines.append(f"arguments_{n}: %json {call.text}")
        lines += [f"raw_call_{n}: {self._head(name)} {message} {raw_rule(n)} {end}" for n, name in enumerate(raw)]
        return lines

    def _head(self, name: str) -> str:
        """The recipient stands in the role or in the channel."""
        role, inside = json.dumps(f" to={NAMESPACE}{name}"), json.dumps(f"commentary to={NAMESPACE}{name}")
        return f'({role} {self.channel.lark} "commentary" | {self.channel.lark} {inside})'

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MessageReader()

    def frames(self, schemas: Mapping[str, Json]) -> Frames:
        return Headers(self)


class MessageReader:
    """A `BlockReader` of the body of a call's message; an empty body means no arguments."""

    def __init__(self) -> None:
        self.state: State = "open"
        self._arguments = ArgumentsReader()
        self._empty = True

    def push(self, char: str) -> list[CallEvent]:
        self._empty = self._empty and char.isspace()
        piece = self._arguments.push(char)
        events: list[CallEvent] = [Arguments(piece)] if piece else []
        if self._arguments.broken:
            self.state = "broken"
        elif self._arguments.done:
            self.state = "done"
            events.append(Ended())
        return events

    def meet(self, marker: Marker) -> list[CallEvent]:
        self.state = "done" if self._empty else "broken"
        return [Arguments("{}"), Ended()] if self._empty else []


class Headers:
    """Reads message headers: `assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>`.

    Tolerant: the recipient may stand in the role or in the channel, the constraint may be missing.
    """

    def __init__(self, form: Harmony) -> None:
        self._form = form
        self.markers = (form.start, form.channel, form.message, form.constrain, form.end, form.call)
        self._role = ""
        self._channel: str | None = None

    def push(self, char: str) -> None:
        if self._channel is None:
            self._role += char
        else:
            self._channel += char

    def meet(self, marker: Marker) -> Part:
        if marker == self._form.message:
            return self._body()
        if marker == self._form.channel:
            self._channel = ""
        elif marker == self._form.constrain:
            self.push(" ")
        else:
            self._role, self._channel = "", None
        return "header"

    def _body(self) -> Part:
        channel = self._channel or ""
        recipient = _recipient(channel) or _recipient(self._role)
        if recipient is not None:
            return Called(recipient.removeprefix(NAMESPACE), MessageReader())
        return "reasoning" if channel.split()[:1] == ["analysis"] else "text"


def _recipient(header: str) -> str | None:
    found = next((word for word in header.split() if word.startswith("to=")), None)
    return None if found is None or found == "to=assistant" else found.removeprefix("to=")


def harmony(tokenizer: Tokenizer) -> Harmony:
    """The dialect for this vocabulary."""
    call = marker(tokenizer, "<|call|>")
    return Harmony(
        name="harmony",
        start=marker(tokenizer, "<|start|>"),
        channel=marker(tokenizer, "<|channel|>"),
        message=marker(tokenizer, "<|message|>"),
        constrain=marker(tokenizer, "<|constrain|>"),
        end=marker(tokenizer, "<|end|>"),
        call=call,
        call_ends=call.token in tokenizer.eos_ids,
    )
