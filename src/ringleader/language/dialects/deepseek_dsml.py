"""DSML, the markup of DeepSeek V3.2 and V4: a tag for each call and each parameter, which says if it is raw text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.default_templates import DEEPSEEK_V4, DEEPSEEK_V32
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
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

LEAD = "\n\n"  # before a block, wherever it stands
MARK = "｜DSML｜"
V4_TOKEN = "<｜latest_reminder｜>"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekDsml(Dialect):
    """A block of `<｜DSML｜invoke name="f">`, each with lines of
    `<｜DSML｜parameter name="a" string="true">VALUE</｜DSML｜parameter>`, or an empty line for no parameters."""

    form: TypedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        return "\n".join(
            [
                f"calls: {json.dumps(LEAD)} {self.opens[0].marker.lark} calls_rest",
                f'calls_rest: "\\n" call {several("call", "", least, most)} {self.form.close.lark}',
                self.form.rules("call", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return TypedReader(self.form, schemas)


def deepseek_dsml(tokenizer: Tokenizer) -> DeepSeekDsml:
    """The dialect for this vocabulary. The tag around the calls is the template's, and else that of the model
    whose vocabulary it is: `tool_calls` for V4, `function_calls` for V3.2."""
    around = "tool_calls" if _is_v4(tokenizer) else "function_calls"
    form = TypedForm(
        call_begin=marker(tokenizer, f'<{MARK}invoke name="'),
        name_end=marker(tokenizer, '">\n'),
        key_begin=marker(tokenizer, f'<{MARK}parameter name="'),
        key_end=marker(tokenizer, '" string="true">'),
        key_end_json=marker(tokenizer, '" string="false">'),
        value_end=marker(tokenizer, f"</{MARK}parameter>\n"),
        call_end=marker(tokenizer, f"</{MARK}invoke>\n"),
        close=marker(tokenizer, f"</{MARK}{around}>"),
        empty="\n",
    )
    return DeepSeekDsml(
        name="deepseek_dsml",
        opens=(Opens(marker(tokenizer, f"<{MARK}{around}>")),),
        markers=(marker(tokenizer, MARK),),
        form=form,
        thinking=think_tags(tokenizer),
        history=_history(around),
    )


def dsml_template(tokenizer: Tokenizer) -> str:
    """The template of ours for a model without one."""
    return DEEPSEEK_V4 if _is_v4(tokenizer) else DEEPSEEK_V32


def _is_v4(tokenizer: Tokenizer) -> bool:
    template = tokenizer.chat_template or ""
    known = tokenizer.token_id(V4_TOKEN) is not None
    return "tool_calls>" in template or ("function_calls>" not in template and known)


# ---------------------------------------------------------------- history


def _history(around: str) -> History:
    def write_call(name: str, arguments: Json) -> str:
        return f"<{MARK}{around}>\n{_invoked(name, arguments)}\n</{MARK}{around}>"

    def describe(tools: Sequence[Json]) -> str:
        listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        shown = {"TEXT_PARAMETER": "its text", "OTHER_PARAMETER": {"its": "JSON"}}
        return (
            f"## Tools\n\nThese tools are there for you, each with the JSON schema of its parameters:\n{listed}\n\n"
            "To call one or several, write a block of exactly this form, with an invoke for each call:\n"
            f"{write_call('TOOL', shown)}\n"
            'A parameter that is text is written as it is, with string="true"; any other as JSON, with string="false".'
        )

    return History(describe, write_call, _result)


def _invoked(name: str, arguments: Json) -> str:
    values = arguments if isinstance(arguments, Mapping) else {}
    lines = [_parameter(key, value) for key, value in values.items()]
    return "\n".join([f'<{MARK}invoke name="{name}">', *(lines or [""]), f"</{MARK}invoke>"])


def _parameter(key: str, value: Json) -> str:
    is_text = isinstance(value, str)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f'<{MARK}parameter name="{key}" string="{"true" if is_text else "false"}">{text}</{MARK}parameter>'


def _result(content: str) -> str:
    return f"<tool_result>{content}</tool_result>"
