"""LongCat under the suite: its tags, and the JSON of its first model."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.families_glm import tagged_calls
from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

TAGS = tuple(f"<{slash}longcat_{name}>" for name in ("tool_call", "arg_key", "arg_value") for slash in ("", "/"))
THINK = ("<longcat_think>", "</longcat_think>")
SHOWN = "{# <longcat_tool_call> <longcat_arg_key>k</longcat_arg_key>\n<longcat_arg_value>v</longcat_arg_value> #}"


def _json(calls: Sequence[Call]) -> str:
    return "".join(
        f'<longcat_tool_call>\n{{"name": "{name}", "arguments": {written(values)}}}\n</longcat_tool_call>'
        for name, values in calls
    )


FAMILIES = [
    Family(
        "longcat, thinking",
        "longcat",
        tagged_calls("\n", "longcat_"),
        (*TAGS, *THINK),
        CHATML + SHOWN + "{# <longcat_think> #}",
        thought=lambda text: f"<longcat_think>\n{text}\n</longcat_think>\n",
        markup=("<longcat_arg_key>text", "</longcat_tool_call>"),
        endings=("</longcat_think>", "</longcat_arg_value>"),
    ),
    Family("longcat, json", "longcat", _json, TAGS[:2], CHATML + "{# <longcat_tool_call> #}", markup=TAGS[:2]),
]
