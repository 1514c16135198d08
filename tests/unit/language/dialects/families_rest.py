"""Families with a form that few models speak: arrays in tags, Apertus, Hunyuan, GigaChat, Muse, MiniCPM5, and more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, thought_in_tags, written
from tests.unit.language.vocabulary import CHATML

THINK = ("<think>", "</think>")


def _array(tag: str) -> Callable[[Sequence[Call]], str]:
    def write(calls: Sequence[Call]) -> str:
        listed = ", ".join(f'{{"name": "{name}", "arguments": {written(values)}}}' for name, values in calls)
        return f"<{tag}>[{listed}]</{tag}>"

    return write


def _actions(calls: Sequence[Call]) -> str:
    listed = ",\n".join(f'    {{"tool_name": "{name}", "parameters": {written(values)}}}' for name, values in calls)
    return f"\nAction:\n```json\n[\n{listed}\n]```"


def _apertus(calls: Sequence[Call]) -> str:
    return f"<|tools_prefix|>[{', '.join(written({name: values}) for name, values in calls)}]<|tools_suffix|>"


def _hy3(ending: str) -> Callable[[Sequence[Call]], str]:
    def write(calls: Sequence[Call]) -> str:
        blocks = []
        for name, values in calls:
            lines = [
                f"<arg_key>{key}</arg_key>\n<arg_value>{_raw(value)}</arg_value>\n" for key, value in values.items()
            ]
            blocks.append(f"<tool_call>{name}<tool_sep>\n{''.join(lines)}</tool_call>\n")
        text = f"<tool_calls>\n{''.join(blocks)}</tool_calls>"
        for tag in ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value"):
            text = text.replace(f"{tag}>", f"{tag}{ending}>")
        return text

    return write


def _raw(value: object) -> str:
    return value if isinstance(value, str) else written(value)


def _gigachat(begin: str) -> Callable[[Sequence[Call]], str]:
    def write(calls: Sequence[Call]) -> str:
        ((name, values),) = calls
        return f'{begin}{{"name": "{name}", "arguments": {written(values)}}}'

    return write


def _functionary(calls: Sequence[Call]) -> str:
    return "".join(f"<function={name}>{written(values)}</function>" for name, values in calls)


def _muse(calls: Sequence[Call]) -> str:
    parts = []
    for name, values in calls:
        lines = [f'<atem:parameter name="{key}">{_raw(value)}</atem:parameter>\n' for key, value in values.items()]
        block = f'<atem:invoke name="{name}">\n{"".join(lines)}</atem:invoke>\n'
        parts.append(f" to={name}<|message|><atem:function_calls>\n{block}</atem:function_calls>")
    return "<|eom|><|start|>assistant".join(parts)


def _minicpm5(calls: Sequence[Call]) -> str:
    lines = []
    for name, values in calls:
        inside = "".join(f'<param name="{key}">{_quoted(value)}</param>' for key, value in values.items())
        lines.append(f'<function name="{name}">{inside}</function>')
    return "\n".join(lines)


def _quoted(value: object) -> str:
    text = _raw(value)
    return f"<![CDATA[{text}]]>" if isinstance(value, str) and any(char in text for char in "<&\n") else text


def _family(label: str, dialect: str, write: Callable[[Sequence[Call]], str], template: str, **more: Any) -> Family:
    return Family(label, dialect, write, template=CHATML + template, **more)


HY3 = "{# HYTK = ':opensource' <tool_sep{}> <arg_key{}> #}"
HY3_TAGS = tuple(
    f"<{slash}{tag}:opensource>"
    for tag in ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value", "think")
    for slash in ("", "/")
)
MUSE = CHATML.replace("<|im_start|>assistant\\n", "<|start|>assistant") + "{# <atem:function_calls> #}"
MINICPM5 = '{# <function name="function-name"><param name="param-name"> #}'
APRIEL = "{# <tool_calls>[ #}"
GIGACHAT = "{# <|role_sep|> <|message_sep|> #}"


def muse_family(label: str, **more: Any) -> Family:
    return Family(
        label,
        "muse",
        _muse,
        template=MUSE,
        thought=lambda text: f" to=self<|message|>{text}<|eom|><|start|>assistant",
        said=lambda text: f" to=user<|message|>{text}",
        joined=lambda text, calls: f" to=user<|message|>{text}<|eom|><|start|>assistant{calls}",
        endings=("<|eom|>", "</atem:parameter>\n"),
        **more,
    )


FAMILIES = [
    _family("nemotron", "nemotron", _array("TOOLCALL"), "{# <TOOLCALL> #}", markup=("</TOOLCALL>",)),
    _family(
        "nemotron, tokens, thinking",
        "nemotron",
        _array("TOOLCALL"),
        "{# <TOOLCALL> </think> #}",
        special=("<TOOLCALL>", "</TOOLCALL>", *THINK),
        markup=("<TOOLCALL>[", "</TOOLCALL>"),
        thought=thought_in_tags,
    ),
    _family(
        "apriel",
        "apriel",
        lambda calls: "\n" + _array("tool_calls")(calls),
        APRIEL,
        joined=lambda text, calls: text + calls,
    ),
    _family(
        "apriel, thinking",
        "apriel",
        lambda calls: "\n" + _array("tool_calls")(calls),
        APRIEL + "{# [BEGIN FINAL RESPONSE] #}",
        joined=lambda text, calls: text + calls,
        thought=lambda text: f"Here are my reasoning steps:\n{text}\n[BEGIN FINAL RESPONSE]",
        endings=("[BEGIN FINAL RESPONSE]",),
    ),
    _family(
        "command_r_plus",
        "command_r_plus",
        _actions,
        '{# Action: "tool_name" #}',
        joined=lambda text, calls: text + calls,
        markup=("```", "Action:\n```json\n["),
    ),
    _family(
        "apertus",
        "apertus",
        _apertus,
        "{# <|tools_prefix|> #}",
        special=("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
        markup=("<|tools_suffix|>", '"}}]'),
    ),
    _family("apertus, plain text", "apertus", _apertus, "{# <|tools_prefix|> #}", markup=("<|tools_suffix|>",)),
    _family(
        "hy3",
        "hy3",
        _hy3(":opensource"),
        HY3,
        special=HY3_TAGS,
        markup=("</arg_value:opensource>", "<arg_key:opensource>", "</tool_calls:opensource>"),
        thought=lambda text: f"<think:opensource>{text}</think:opensource>",
        endings=("</arg_value:opensource>", "</think:opensource>", "</tool_calls:opensource>"),
    ),
    _family(
        "hy3, plain text, no ending",
        "hy3",
        _hy3(""),
        "{# HYTK = '' <tool_sep{}> <arg_key{}> #}",
        thought=lambda text: f"<think>{text}</think>",
        endings=("</arg_value>", "</think>", "</tool_calls>"),
    ),
    _family(
        "gigachat 3.1",
        "gigachat",
        _gigachat("<|function_call|>"),
        GIGACHAT + "{# <|function_call|> #}",
        special=("<|role_sep|>", "<|message_sep|>", "<|function_call|>"),
        ends=("<|message_sep|>",),
        many=False,
        joined=lambda text, calls: text + calls,
        markup=("<|function_call|>",),
    ),
    _family(
        "gigachat 3",
        "gigachat",
        _gigachat("<|message_sep|>\n\nfunction call<|role_sep|>\n"),
        GIGACHAT,
        special=("<|role_sep|>", "<|message_sep|>"),
        many=False,
        joined=lambda text, calls: text + calls,
        markup=("function call<|role_sep|>\n",),
    ),
    _family(
        "gigachat 3, whose turns end answers",
        "gigachat",
        _gigachat("function call<|role_sep|>\n"),
        GIGACHAT,
        special=("<|role_sep|>", "<|message_sep|>"),
        ends=("<|message_sep|>",),
        many=False,
    ),
    _family(
        "functionary",
        "functionary",
        _functionary,
        "{# <function=example_function_name>{} #}",
        markup=("</function>", "<function=now>{}"),
    ),
    muse_family(
        "muse",
        special=("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"),
        ends=("<|eot|>",),
        markup=("<atem:invoke", "</atem:invoke>", "<|eom|>"),
    ),
    muse_family(
        "muse, blocks as tokens",
        special=("<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<atem:function_calls>", "</atem:function_calls>"),
        ends=("<|eot|>",),
        markup=("</atem:function_calls>",),
    ),
    _family(
        "minicpm5",
        "minicpm5",
        _minicpm5,
        MINICPM5,
        markup=("</param>", "</function>", "<![CDATA[", "]]>"),
        endings=("</param>", "]]></param>"),
    ),
    _family(
        "minicpm5, tags as tokens, thinking",
        "minicpm5",
        _minicpm5,
        MINICPM5 + "{# </think> #}",
        special=("<function", "</function>", "<param", "</param>", *THINK),
        markup=("<param", "</function>"),
        thought=thought_in_tags,
        endings=("</param>", "]]></param>", "</think>"),
    ),
]
