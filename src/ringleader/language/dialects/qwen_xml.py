"""Qwen3-Coder and Qwen3.5 style calls: a tag for each parameter, strings as raw text. Also Nemotron 3 and Step."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenXml(Dialect):
    """`<tool_call>\\n<function=f>\\n<parameter=a>\\nVALUE\\n</parameter>\\n</function>\\n</tool_call>`.

    Models forget `<tool_call>`; a block then begins with `<function=` on a line of its own.
    """

    form: TypedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", "\n", least, most)
        return "\n".join(
            [
                f"calls: call {more}",
                f"calls_rest: call_rest {more}",
                f"calls_rest_1: function_rest {more}",
                f"calls_rest_2: function_rest {more}",
                f"call: {self.opens[0].marker.lark} call_rest",
                f'call_rest: "\\n" function "\\n" {self.form.close.lark}',
                f'function_rest: function_open "\\n" {self.form.close.lark}',
                self.form.rules("function", calls),
                self.form.rules("function_open", calls, begun=True),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return TypedReader(self.form, schemas)


def qwen_xml(tokenizer: Tokenizer) -> QwenXml:
    """The dialect for this vocabulary."""
    form = TypedForm(
        call_begin=marker(tokenizer, "<function="),
        name_end=marker(tokenizer, ">\n"),
        key_begin=marker(tokenizer, "<parameter="),
        key_end=marker(tokenizer, ">\n"),
        value_end=marker(tokenizer, "\n</parameter>\n"),
        call_end=marker(tokenizer, "</function>"),
        close=marker(tokenizer, "</tool_call>"),
    )
    return QwenXml(
        name="qwen_xml",
        opens=(
            Opens(marker(tokenizer, "<tool_call>")),
            Opens(marker(tokenizer, "\n<function="), kept=True),
            Opens(marker(tokenizer, "<function="), first=True, kept=True),
        ),
        markers=(form.close,),
        form=form,
        thinking=think_tags(tokenizer),
    )
