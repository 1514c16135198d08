"""DeepSeek's forms under the suite, with their markers as tokens and as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
DSML = "{# <｜DSML｜tool_calls> #}"
DSML_ENDINGS = ("</｜DSML｜parameter>\n", "</｜DSML｜tool_calls>")
DSML_MARKUP = ("</parameter>\n", "</｜DSML｜parameter>\n", '" string="true">', "<｜DSML｜tool_calls>")


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


def _dsml(calls: Sequence[Call]) -> str:
    body = "".join(
        f'<｜DSML｜invoke name="{name}">\n{_parameters(values)}</｜DSML｜invoke>\n' for name, values in calls
    )
    return f"\n\n<｜DSML｜tool_calls>\n{body}</｜DSML｜tool_calls>"


def _parameters(values: dict[str, Any]) -> str:
    if not values:
        return "\n"
    return "".join(
        f'<｜DSML｜parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{value if isinstance(value, str) else written(value)}</｜DSML｜parameter>\n"
        for key, value in values.items()
    )


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
    Family(
        "deepseek dsml", "deepseek_dsml", _dsml, ("｜DSML｜",), CHATML + DSML, markup=DSML_MARKUP, endings=DSML_ENDINGS
    ),
    Family(
        "deepseek dsml, thinking, function_calls",
        "deepseek_dsml",
        lambda calls: _dsml(calls).replace("tool_calls", "function_calls"),
        ("｜DSML｜", *THINK),
        MENTIONS_THINKING + DSML.replace("tool_calls", "function_calls"),
        thought=lambda text: f"<think>{text}</think>",
        endings=(*DSML_ENDINGS, "</｜DSML｜function_calls>", "</think>"),
    ),
    Family("deepseek dsml, plain text", "deepseek_dsml", _dsml, (), CHATML + DSML, endings=DSML_ENDINGS),
]
