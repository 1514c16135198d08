"""Hunyuan's calls (Hy3): a block of them, each with a tag around every key and every value, strings as raw text.

All its tags end in the same words, which the chat template names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Opens,
    Thinking,
    marker,
    several,
)
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

ENDING = ":opensource"  # of the tags, where no template says otherwise
NAMED = re.compile(r"HYTK = '([^']*)'")
INSIDE = ("tool_call", "tool_sep", "arg_key", "/arg_key", "arg_value", "/arg_value", "/tool_call", "/tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hy3(Dialect):
    """`<tool_calls>`, for each call `<tool_call>f<tool_sep>` and lines of `<arg_key>a</arg_key>` and
    `<arg_value>VALUE</arg_value>`."""

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


def hy3(tokenizer: Tokenizer) -> Hy3:
    """The dialect for this vocabulary."""
    named = NAMED.search(tokenizer.chat_template or "")
    ending = named[1] if named else "" if tokenizer.token_id("<tool_sep>") is not None else ENDING
    form = TypedForm(
        call_begin=marker(tokenizer, f"\n<tool_call{ending}>"),
        name_end=marker(tokenizer, f"<tool_sep{ending}>"),
        key_begin=marker(tokenizer, f"\n<arg_key{ending}>"),
        key_end=marker(tokenizer, f"</arg_key{ending}>\n<arg_value{ending}>"),
        value_end=marker(tokenizer, f"</arg_value{ending}>"),
        call_end=marker(tokenizer, f"\n</tool_call{ending}>"),
        close=marker(tokenizer, f"\n</tool_calls{ending}>"),
    )
    return Hy3(
        name="hy3",
        opens=(Opens(marker(tokenizer, f"<tool_calls{ending}>")),),
        markers=tuple(marker(tokenizer, f"<{tag}{ending}>") for tag in INSIDE),
        form=form,
        thinking=Thinking(marker(tokenizer, f"<think{ending}>"), marker(tokenizer, f"</think{ending}>"), expected=True),
    )
