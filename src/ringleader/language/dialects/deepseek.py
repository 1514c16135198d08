"""DeepSeek's calls before DSML: marked names with bare JSON (V3.1), or with the JSON in a fence (V3, R1 and its
distillations).

Most of their templates show neither tools nor calls of the history, so both are written here in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from ringleader.language.dialects.history import History
from ringleader.language.dialects.marked_call import MarkedForm, MarkedReader, stripped
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

CALLS_BEGIN, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
KIND = "function"  # what V3 and R1 write before every name
FENCE, FENCE_END = "\n```json\n", "\n```"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeek(Dialect):
    """A block of calls. `head` is lark of what stands between a call's begin and its name, `between` the text
    between two calls."""

    form: MarkedForm
    head: str = ""
    between: str = ""

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        close = self.form.close.lark if self.form.close is not None else ""
        begin = self.form.begin.lark if self.form.begin is not None else ""
        return "\n".join(
            [
                f"calls: {self.opens[0].marker.lark} calls_rest",
                f"calls_rest: call {several('call', self.between, least, most)} {close}",
                f"call: {begin} {self.head} named",
                self.form.rules("named", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MarkedReader(self.form)


def deepseek_v31(tokenizer: Tokenizer) -> DeepSeek:
    """`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>...<｜tool▁calls▁end｜>`"""
    form = MarkedForm(
        begin=marker(tokenizer, CALL_BEGIN),
        middle=marker(tokenizer, SEPARATOR),
        end=marker(tokenizer, CALL_END),
        close=marker(tokenizer, CALLS_END),
        name_of=_name,
    )
    return _deepseek(tokenizer, "deepseek_v31", form, _history(_bare))


def deepseek_v3(tokenizer: Tokenizer) -> DeepSeek:
    """As V3.1, but `function<｜tool▁sep｜>f`, a newline, the JSON in a fence; calls stand on lines of their own."""
    form = MarkedForm(
        begin=marker(tokenizer, CALL_BEGIN),
        middle=marker(tokenizer, FENCE),
        end=marker(tokenizer, CALL_END),
        close=marker(tokenizer, CALLS_END),
        name_of=_name,
        after=FENCE_END,
    )
    head = f"{json.dumps(KIND)} {marker(tokenizer, SEPARATOR).lark}"
    return _deepseek(tokenizer, "deepseek_v3", form, _history(_fenced), head=head, between="\n")


def _deepseek(
    tokenizer: Tokenizer, name: str, form: MarkedForm, history: History, head: str = "", between: str = ""
) -> DeepSeek:
    inside = (CALL_BEGIN, SEPARATOR, CALL_END, CALLS_END)
    return DeepSeek(
        name=name,
        opens=(Opens(marker(tokenizer, CALLS_BEGIN)),),
        markers=tuple(marker(tokenizer, text) for text in inside),
        form=form,
        head=head,
        between=between,
        thinking=think_tags(tokenizer),
        history=history,
    )


def _name(head: str) -> str:
    """What stands after the separator, where the name has one before it."""
    kind, separator, name = head.partition(SEPARATOR)
    return stripped(name if separator else kind)


# ---------------------------------------------------------------- history


def _bare(name: str, arguments: str) -> str:
    return f"{CALL_BEGIN}{name}{SEPARATOR}{arguments}{CALL_END}"


def _fenced(name: str, arguments: str) -> str:
    return f"{CALL_BEGIN}{KIND}{SEPARATOR}{name}{FENCE}{arguments}{FENCE_END}{CALL_END}"


def _history(write: Callable[[str, str], str]) -> History:
    def write_call(name: str, arguments: Json) -> str:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return f"{CALLS_BEGIN}{write(name, text)}{CALLS_END}"

    def describe(tools: Sequence[Json]) -> str:
        listed = "\n\n".join(_described(tool["function"]) for tool in tools)
        form = f"{CALLS_BEGIN}{write('NAME', 'ARGUMENTS')}{CALLS_END}"
        return (
            f"## Tools\n\nThese tools are there for you:\n\n{listed}\n\n"
            f"To call one, write exactly this, with its name and with its arguments as one JSON object:\n{form}\n\n"
            "The arguments must match the tool's parameters. Several calls may stand one after the other before "
            f"{CALLS_END}."
        )

    return History(describe, write_call, _result)


def _described(function: Json) -> str:
    parameters = json.dumps(function["parameters"], ensure_ascii=False)
    return f"### {function['name']}\nDescription: {function['description']}\n\nParameters: {parameters}"


def _result(content: str) -> str:
    return f"<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>{content}<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
