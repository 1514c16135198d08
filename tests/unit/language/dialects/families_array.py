"""Granite 3 and Phi-4-mini under the suite: one JSON array behind a marker."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, thought_in_tags, written
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING

CALL, CALL_END = "<|tool_call|>", "<|/tool_call|>"
GRANITE = CHATML + "{# <|start_of_role|> <|tool_call|> #}"
PHI = "{# <|tool|> <|/tool|> #}"


def _array(calls: Sequence[Call]) -> str:
    return f"[{', '.join(written({'name': name, 'arguments': values}) for name, values in calls)}]"


def _granite(calls: Sequence[Call]) -> str:
    return CALL + _array(calls)


def _phi(calls: Sequence[Call]) -> str:
    return f"{CALL}{_array(calls)}{CALL_END}"


def _functools(calls: Sequence[Call]) -> str:
    return f"functools{_array(calls)}"


FAMILIES = [
    Family("granite", "granite", _granite, (CALL,), GRANITE, markup=(CALL, '"}}]')),
    Family("granite, plain text", "granite", _granite, (), GRANITE),
    Family("phi4 mini", "phi4_mini", _phi, (CALL, CALL_END), CHATML + PHI, markup=(CALL, CALL_END, '"}}]')),
    Family(
        "phi4 mini, thinking",
        "phi4_mini",
        _phi,
        (CALL, CALL_END, "<think>", "</think>"),
        MENTIONS_THINKING + PHI,
        thought=thought_in_tags,
    ),
    Family("phi4 mini, plain text", "phi4_mini", _phi, (), CHATML + PHI, markup=(CALL_END,)),
    Family("functools", "phi4_mini", _functools, (), CHATML + "{# functools[ #}", markup=("functools[{",)),
    Family(
        "functools after a space",
        "phi4_mini",
        lambda calls: " " + _functools(calls),
        (),
        CHATML + "{# + ' functools[' #}",
    ),
]
