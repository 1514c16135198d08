"""MiniMax M2's calls: one block of them, a tag with a name for each call and each parameter, strings as raw text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Opens,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

OPEN, CLOSE = "<minimax:tool_call>", "</minimax:tool_call>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimaxM2(Dialect):
    """`<invoke name="f">\\n<parameter name="a">VALUE</parameter>\\n</invoke>`, all of them between one pair of tags."""

    form: TypedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(
            [
                f"calls: {self.opens[0].marker.lark} calls_rest",
                f"calls_rest: call {several('call', '', least, most)} {self.form.close.lark}",
                self.form.rules("call", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return TypedReader(self.form, schemas)


def minimax_m2(tokenizer: Tokenizer) -> MinimaxM2:
    """The dialect for this vocabulary."""
    form = TypedForm(
        call_begin=marker(tokenizer, '\n<invoke name="'),
        name_end=marker(tokenizer, '">'),
        key_begin=marker(tokenizer, '\n<parameter name="'),
        key_end=marker(tokenizer, '">'),
        value_end=marker(tokenizer, "</parameter>"),
        call_end=marker(tokenizer, "\n</invoke>"),
        close=marker(tokenizer, f"\n{CLOSE}"),
    )
    return MinimaxM2(
        name="minimax_m2",
        opens=(Opens(marker(tokenizer, OPEN)),),
        markers=(marker(tokenizer, CLOSE),),
        thinking=think_tags(tokenizer),
        form=form,
    )
