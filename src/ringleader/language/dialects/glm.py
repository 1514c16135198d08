"""GLM's calls: a name, then tags around each key and each value, strings as raw text. Also Laguna and others.

GLM 4.5 and 4.6 write each tag on a line of its own, 4.7 and 5 write no newlines: the chat template shows which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Opens,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.shown_calls import FIRST, NAME, SECOND, two_calls
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Glm(Dialect):
    """`<tool_call>f\\n<arg_key>a</arg_key>\\n<arg_value>VALUE</arg_value>\\n</tool_call>`, one block for each call."""

    form: TypedForm
    between: str  # what stands between two blocks

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more = several("call", self.between, least, most)
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


def glm(tokenizer: Tokenizer) -> Glm:
    """The dialect for this vocabulary, with the newlines that its chat template writes."""
    return tagged("glm", tokenizer, "")


def tagged(name: str, tokenizer: Tokenizer, prefix: str) -> Glm:
    """The dialect `name`, whose tags (those of reasoning too) all begin with `prefix`."""
    gaps = shown_gaps(tokenizer, prefix)
    close = marker(tokenizer, f"{gaps.before_close}</{prefix}tool_call>")
    form = TypedForm(
        call_begin=marker(tokenizer, ""),
        name_end=marker(tokenizer, gaps.after_name),
        key_begin=marker(tokenizer, f"{gaps.before_key}<{prefix}arg_key>"),
        key_end=marker(tokenizer, f"</{prefix}arg_key>{gaps.before_value}<{prefix}arg_value>"),
        value_end=marker(tokenizer, f"</{prefix}arg_value>"),
        call_end=close,
        close=close,
    )
    inside = ("arg_key>", "/arg_key>", "arg_value>", "/arg_value>", "/tool_call>")
    tags = (f"</{prefix}{tag[1:]}" if tag[0] == "/" else f"<{prefix}{tag}" for tag in inside)
    thinking = think_tags(tokenizer, f"<{prefix}think>", f"</{prefix}think>")
    return Glm(
        name=name,
        opens=(Opens(marker(tokenizer, f"<{prefix}tool_call>")),),
        markers=tuple(marker(tokenizer, tag) for tag in tags),
        thinking=replace(thinking, lead="\n"),
        form=form,
        between=gaps.between,
    )


# ---------------------------------------------------------------- what the template writes between tags


@dataclass(frozen=True, slots=True)
class Gaps:
    """Whitespace, as the template writes it."""

    after_name: str = ""
    before_value: str = "\n"
    before_key: str = "\n"
    before_close: str = "\n"
    between: str = "\n"


TIGHT = Gaps("", "", "", "", "")


def shown_gaps(tokenizer: Tokenizer, prefix: str) -> Gaps:
    """Found by asking the template to show two calls; where it shows none, by how it describes them."""
    end_of_key, value, end_of_value = f"</{prefix}arg_key>", f"<{prefix}arg_value>", f"</{prefix}arg_value>"
    found = re.search(
        rf"{NAME}(\s*)<{prefix}arg_key>{FIRST}{end_of_key}(\s*){value}{FIRST}{end_of_value}"
        rf"(\s*)<{prefix}arg_key>{SECOND}{end_of_key}\s*{value}{SECOND}{end_of_value}"
        rf"(\s*)</{prefix}tool_call>(\s*)<{prefix}tool_call>",
        two_calls(tokenizer),
    )
    if found is None:
        return TIGHT if f"{end_of_key}{value}" in (tokenizer.chat_template or "") else Gaps()
    gaps = Gaps(*found.groups())
    # Where all keys have the same before them it is theirs, and a call without any writes it once less.
    return replace(gaps, after_name="") if gaps.after_name == gaps.before_key else gaps
