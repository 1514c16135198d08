"""Python's calls under the suite: a bare list, LFM2's between tokens, Olmo 3's in tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, thought_in_tags, written
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING

BARE = CHATML + "{# [func_name1(params_name1=params_value1 #}"
LFM2 = ("<|tool_call_start|>", "<|tool_call_end|>")
OLMO3 = CHATML + "{# <functions></functions> <function_calls></function_calls> #}"


def python(value: Any) -> str:
    """The value in double quotes, with Python's words."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {python(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(python, value))}]"
    return written(value) if isinstance(value, str) else repr(value)


def call(name: str, values: dict[str, Any], spelled: Callable[[Any], str] = python) -> str:
    return f"{name}({', '.join(f'{key}={spelled(value)}' for key, value in values.items())})"


def listed(calls: Sequence[Call]) -> str:
    return f"[{', '.join(call(*one) for one in calls)}]"


def _quoted_singly(value: Any) -> str:
    return repr(value) if repr(value).startswith("'") and "\\" not in repr(value) else python(value)


def lfm2(calls: Sequence[Call]) -> str:
    return f"<|tool_call_start|>{listed(calls)}<|tool_call_end|>"


def _lfm2_single(calls: Sequence[Call]) -> str:
    return f"<|tool_call_start|>[{', '.join(call(*one, _quoted_singly) for one in calls)}]<|tool_call_end|>"


def olmo3(calls: Sequence[Call]) -> str:
    return "<function_calls>" + "\n".join(call(*one, written) for one in calls) + "</function_calls>"


FAMILIES = [
    Family(
        "pythonic",
        "pythonic",
        listed,
        (),
        BARE,
        talks=False,
        joined=lambda text, calls: calls,
        markup=("[now()]", '"), now('),
        endings=('")', "')", "]"),
    ),
    Family(
        "lfm2",
        "lfm2",
        lfm2,
        LFM2,
        CHATML,
        joined=lambda text, calls: text + calls,
        markup=(*LFM2, ")]", "[now()]"),
        endings=('")', "')", "]"),
    ),
    Family(
        "lfm2, single quotes, thinking",
        "lfm2",
        _lfm2_single,
        (*LFM2, "<think>", "</think>"),
        MENTIONS_THINKING + "{# <|tool_call_start|> #}",
        thought=thought_in_tags,
        endings=('")', "')", "]", "</think>"),
    ),
    Family(
        "lfm2, plain text", "lfm2", lfm2, (), CHATML + "{# <|tool_call_start|> #}", markup=LFM2, endings=("')", "]")
    ),
    Family(
        "olmo3",
        "olmo3",
        olmo3,
        (),
        OLMO3,
        markup=("</function_calls>", "<function_calls>"),
        endings=("')", '")', "</function_calls>"),
    ),
]
