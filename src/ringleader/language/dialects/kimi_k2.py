"""Kimi K2's calls: one section of them, each with an id made of the tool's name and a running number.

The number counts the calls of the conversation, which only the model and the history's writer know: any is legal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ringleader.errors import BadRequest
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
from ringleader.language.dialects.history import TAGGED
from ringleader.language.dialects.marked_call import MarkedForm, MarkedReader
from ringleader.language.template import render
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json, Message, Tool, ToolCall

NAMESPACE = "functions."
PROBE = "nameprobe"
NUMBER = re.compile(r"[:_.\s]+\d+$")
SPACE = re.compile(r"^functions[._:]")


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiK2(Dialect):
    """`<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>`, in a section."""

    form: MarkedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        assert self.form.begin is not None and self.form.close is not None
        return "\n".join(
            [
                f"calls: {self.opens[0].marker.lark} calls_rest",
                f"calls_rest: call {several('call', '', least, most)} {self.form.close.lark}",
                f"call: {self.form.begin.lark} call_rest",
                self.form.rules("call_rest", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MarkedReader(replace(self.form, name_of=partial(tool_of, frozenset(schemas))))


def tool_of(known: Collection[str], id_: str) -> str:
    """The name in an id, which models also spell `functions_f_1`, `f:0` or plainly `f`. A known name wins."""
    id_ = id_.strip()
    bare = SPACE.sub("", id_)
    guesses = (NUMBER.sub("", bare), bare, NUMBER.sub("", id_), id_)
    return next((guess for guess in guesses if guess in known), guesses[0])


def kimi_k2(tokenizer: Tokenizer) -> KimiK2:
    """The dialect for this vocabulary."""
    form = MarkedForm(
        begin=marker(tokenizer, "<|tool_call_begin|>"),
        middle=marker(tokenizer, "<|tool_call_argument_begin|>"),
        end=marker(tokenizer, "<|tool_call_end|>"),
        close=marker(tokenizer, "<|tool_calls_section_end|>"),
        before_name=NAMESPACE,
        aside='":" /[0-9]{1,4}/',
    )
    return KimiK2(
        name="kimi_k2",
        opens=(Opens(marker(tokenizer, "<|tool_calls_section_begin|>")),),
        markers=tuple(mark for mark in (form.begin, form.middle, form.end, form.close) if mark is not None),
        thinking=think_tags(tokenizer),
        form=form,
        history=replace(TAGGED, ids="indexed_by_turn" if _counts_by_turn(tokenizer, form.middle) else "indexed"),
    )


def _counts_by_turn(tokenizer: Tokenizer, middle: Marker) -> bool:
    """Whether the chat template makes ids itself and begins each turn at 0: its results must then say the same."""
    turns = [Message("user", "?")]
    for id_ in ("a", "b"):
        turns.append(Message("assistant", "", tool_calls=(ToolCall(id_, PROBE, "{}"),)))
        turns.append(Message("tool", "!", tool_call_id=id_, name=PROBE))
    try:
        text = render(
            tokenizer.chat_template,
            turns,
            [Tool(PROBE)],
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
            history=replace(TAGGED, ids="indexed"),
        )
    except BadRequest:
        return False
    return text.count(f"{NAMESPACE}{PROBE}:0{middle.text}") == 2
