"""GLM and its kin under the suite: with newlines and without, as tokens and as plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

TAGS = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
THINK = ("<think>", "</think>")
LOOSE = "{# <arg_key>k</arg_key>\n<arg_value>v</arg_value> #}"
TIGHT = "{# <arg_key>k</arg_key><arg_value>v</arg_value> #}"
SPEAKS_OF_THINKING = "{# <think></think> #}"


def tagged_calls(gap: str, prefix: str = "", between: str | None = None) -> Callable[[Sequence[Call]], str]:
    def write(calls: Sequence[Call]) -> str:
        return (gap if between is None else between).join(_tagged(call, gap, prefix) for call in calls)

    return write


def _tagged(call: Call, gap: str, prefix: str) -> str:
    name, values = call
    pairs = [
        f"{gap}<{prefix}arg_key>{key}</{prefix}arg_key>{gap}<{prefix}arg_value>{_raw(value)}</{prefix}arg_value>"
        for key, value in values.items()
    ]
    return f"<{prefix}tool_call>{name}{''.join(pairs)}{gap}</{prefix}tool_call>"


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


MARKUP = ("<arg_key>text", "</tool_call>\n<tool_call>now", "</arg_key>")

FAMILIES = [
    Family(
        "glm 4.6, thinking",
        "glm",
        tagged_calls("\n"),
        (*TAGS, *THINK),
        CHATML + LOOSE + SPEAKS_OF_THINKING,
        thought=lambda text: f"\n<think>{text}</think>\n",
        markup=(*MARKUP, "</arg_value>\n", "<think>"),
        endings=("</think>", "</arg_value>"),
    ),
    Family(
        "glm 4.7",
        "glm",
        tagged_calls(""),
        TAGS,
        CHATML + TIGHT,
        markup=(*MARKUP, "</arg_value>"),
        endings=("</arg_value>",),
    ),
    Family(
        "glm, plain text, thinking",
        "glm",
        tagged_calls("\n"),
        (),
        CHATML + LOOSE + SPEAKS_OF_THINKING,
        thought=lambda text: f"<think>{text}</think>",
        markup=MARKUP,
        endings=("</think>", "</arg_value>"),
    ),
    Family("glm, tight, plain text", "glm", tagged_calls(""), (), CHATML + TIGHT, endings=("</arg_value>",)),
]
