"""DeepSeek's forms under the suite, with their markers as tokens and as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, thought_in_tags, written
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING

MARKS = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
THINK = ("<think>", "</think>")
ENDINGS = ("</think>", "<｜tool▁calls▁end｜>")
V31 = "{# <｜tool▁sep｜> #}"
V3 = "{# <｜tool▁sep｜> ```json #}"


def _v31(calls: Sequence[Call]) -> str:
    body = "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{written(values)}<｜tool▁call▁end｜>" for name, values in calls
    )
    return f"<｜tool▁calls▁begin｜>{body}<｜tool▁calls▁end｜>"


def _v3(calls: Sequence[Call]) -> str:
    body = "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{written(values)}\n```<｜tool▁call▁end｜>"
        for name, values in calls
    )
    return f"<｜tool▁calls▁begin｜>{body}<｜tool▁calls▁end｜>"


FAMILIES = [
    Family("deepseek v3.1", "deepseek_v31", _v31, MARKS, CHATML + V31, markup=MARKS, endings=ENDINGS),
    Family(
        "deepseek v3.1, thinking",
        "deepseek_v31",
        _v31,
        (*MARKS, *THINK),
        MENTIONS_THINKING + V31,
        thought=lambda text: f"<think>{text}</think>",
        endings=ENDINGS,
    ),
    Family("deepseek v3.1, plain text", "deepseek_v31", _v31, (), CHATML + V31, markup=MARKS[1:], endings=ENDINGS),
    Family(
        "deepseek v3",
        "deepseek_v3",
        _v3,
        MARKS,
        CHATML + V3,
        markup=(*MARKS, "\n```<｜tool▁call▁end｜>"),
        endings=ENDINGS,
    ),
    Family(
        "deepseek v3, thinking",
        "deepseek_v3",
        _v3,
        (*MARKS, *THINK),
        MENTIONS_THINKING + V3,
        thought=thought_in_tags,
        endings=ENDINGS,
    ),
    Family("deepseek v3, plain text", "deepseek_v3", _v3, (), CHATML + V3, markup=MARKS[1:], endings=ENDINGS),
]
