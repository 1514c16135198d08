"""MiniCPM5's calls: tags around each parameter without any block around them; text with markup in it stands quoted."""

from __future__ import annotations

import json
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
from ringleader.language.dialects.history import History, write_result
from ringleader.language.dialects.typed_form import Quoted, TypedForm, TypedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

BEGIN = '<function name="'


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniCpm5(Dialect):
    """`<function name="f"><param name="a">VALUE</param></function>`, a line for each call. A string with `<`, `&`
    or a newline in it is written as `<![CDATA[...]]>`."""

    form: TypedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", "\n", least, most)
        return "\n".join(
            [
                f"calls: call {more}",
                f"calls_rest: call_rest {more}",
                f"call: {self.opens[0].marker.lark} call_rest",
                self.form.rules("call_rest", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return TypedReader(self.form, schemas)


def minicpm5(tokenizer: Tokenizer) -> MiniCpm5:
    """The dialect for this vocabulary."""
    close = marker(tokenizer, "</function>")
    form = TypedForm(
        call_begin=marker(tokenizer, ""),
        name_end=marker(tokenizer, '">'),
        key_begin=marker(tokenizer, '<param name="'),
        key_end=marker(tokenizer, '">'),
        value_end=marker(tokenizer, "</param>"),
        call_end=close,
        close=close,
        quoted=Quoted(marker(tokenizer, "<![CDATA["), marker(tokenizer, "]]></param>"), "[^<&\\n]*"),
    )
    tags = (marker(tokenizer, text) for text in ("<param", "</param>", "</function>"))
    return MiniCpm5(
        name="minicpm5",
        opens=(Opens(marker(tokenizer, BEGIN)),),
        markers=tuple(tag for tag in tags if tag.token is not None),
        form=form,
        thinking=think_tags(tokenizer),
        history=History(_describe, _write_call, write_result),
    )


# ---------------------------------------------------------------- history, where the template shows calls wrongly


def _describe(tools: Sequence[Json]) -> str:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        f"# Tools\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{listed}\n"
        f'</tools>\n\nTo call a function write\n{BEGIN}function-name"><param name="param-name">param-value</param>'
        "</function>\nwith <![CDATA[ and ]]> around a value that contains <, & or a newline."
    )


def _write_call(name: str, arguments: Json) -> str:
    values = "".join(f'<param name="{key}">{_written(value)}</param>' for key, value in arguments.items())
    return f'{BEGIN}{name}">{values}</function>'


def _written(value: Json) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"<![CDATA[{value}]]>" if any(char in value for char in "<&\n") else value
