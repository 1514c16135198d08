"""MiniMax M3 under the suite, with all of its tokens and with that of its tags alone."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

NAMESPACE = "]<]minimax[>["
TOKENS = (NAMESPACE, "<tool_call>", "</tool_call>", "<mm:think>", "</mm:think>")
SHOWN = CHATML + "{# ]<]minimax[>[ #}"
MARKUP = (*TOKENS, f"{NAMESPACE}</text>", "</text>")


def block(calls: Sequence[Call]) -> str:
    inside = "".join(_invoke(call) for call in calls)
    return f"{NAMESPACE}<tool_call>\n{inside}{NAMESPACE}</tool_call>"


def _invoke(call: Call) -> str:
    name, values = call
    return f'{NAMESPACE}<invoke name="{name}">{_tags(values)}{NAMESPACE}</invoke>\n'


def _tags(value: object) -> str:
    if isinstance(value, dict):
        return "".join(f"{NAMESPACE}<{key}>{_tags(each)}{NAMESPACE}</{key}>" for key, each in value.items())
    if isinstance(value, list):
        return "".join(f"{NAMESPACE}<item>{_tags(each)}{NAMESPACE}</item>" for each in value)
    return value if isinstance(value, str) else written(value)


CLOSING = tuple(f"{NAMESPACE}</{tag}>" for tag in ("item", "title", "text", "tags", "input"))
ENDINGS = ("</mm:think>", *CLOSING, f"\n{NAMESPACE}</tool_call>")

FAMILIES = [
    Family(
        "minimax m3",
        "minimax_m3",
        block,
        TOKENS,
        SHOWN,
        thought=lambda text: f"<mm:think>\n{text}\n</mm:think>\n\n",
        markup=MARKUP,
        endings=ENDINGS,
    ),
    Family(
        "minimax m3, one token",
        "minimax_m3",
        block,
        (NAMESPACE,),
        SHOWN,
        thought=lambda text: f"<mm:think>\n{text}\n</mm:think>\n\n",
        markup=MARKUP,
        endings=ENDINGS,
    ),
]
