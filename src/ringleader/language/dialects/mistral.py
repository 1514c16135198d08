"""Mistral's calls: an array of JSON objects behind one marker (v3, v7), or a marker for each call (v11 and later).

There is no closing marker: calls end with the answer. Which form it is shows in the template and vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Marker,
    Opens,
    Thinking,
    marker,
    several,
)
from ringleader.language.dialects.json_array import JsonArray
from ringleader.language.dialects.marked_call import MarkedForm, MarkedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MistralNamed(Dialect):
    """`[TOOL_CALLS]f[ARGS]{...}`, repeated. A `[CALL_ID]` before `[ARGS]` is read past: ids are ours."""

    form: MarkedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", "", least, most)
        opening = self.opens[0].marker.lark
        return "\n".join(
            [
                f"calls: call {more}",
                f"calls_rest: call_rest {more}",
                f"call: {opening} call_rest",
                self.form.rules("call_rest", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MarkedReader(self.form)


def mistral(tokenizer: Tokenizer) -> JsonArray | MistralNamed:
    """The dialect for this vocabulary: an array, before which v3 writes a space, or the named form where the template
    writes `[ARGS]`, or has no say and the vocabulary knows it."""
    opening = marker(tokenizer, "[TOOL_CALLS]")
    template = tokenizer.chat_template or ""
    arguments = marker(tokenizer, "[ARGS]")
    call_id = marker(tokenizer, "[CALL_ID]")
    thinking = _thinking(tokenizer, template)
    if "[ARGS]" not in template and ("[TOOL_CALLS]" in template or arguments.token is None):
        space = "[TOOL_CALLS] [" in template or "[TOOL_CALLS]" not in template
        return JsonArray(name="mistral", opens=(Opens(opening),), thinking=thinking, space=space)
    return MistralNamed(
        name="mistral",
        opens=(Opens(opening),),
        markers=(arguments, call_id),
        thinking=thinking,
        form=MarkedForm(
            begin=opening,
            middle=arguments,
            end=None,
            close=None,
            opened=True,
            name_of=_name,
            aside=f"({call_id.lark} /[a-zA-Z0-9]{{9}}/)?" if "[CALL_ID]" in template else "",
        ),
    )


def _name(head: str) -> str:
    return head.split("[CALL_ID]")[0].strip()


def _thinking(tokenizer: Tokenizer, template: str) -> Thinking | None:
    open_: Marker = marker(tokenizer, "[THINK]")
    close: Marker = marker(tokenizer, "[/THINK]")
    if open_.token is None and "[THINK]" not in template:
        return None
    return Thinking(open_, close, "[THINK]" in template)
