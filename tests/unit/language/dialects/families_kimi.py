"""Kimi K2 under the suite: its markers as tokens and as plain text, with reasoning and without."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

K2 = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)


def section(calls: Sequence[Call]) -> str:
    written_calls = [
        f"<|tool_call_begin|>functions.{name}:{n + 7}<|tool_call_argument_begin|>{written(values)}<|tool_call_end|>"
        for n, (name, values) in enumerate(calls)
    ]
    return f"<|tool_calls_section_begin|>{''.join(written_calls)}<|tool_calls_section_end|>"


FAMILIES = [
    Family(
        "kimi k2",
        "kimi_k2",
        section,
        K2,
        CHATML + "{# <|tool_calls_section_begin|> #}",
        markup=("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>functions.now:0"),
        endings=("<|tool_calls_section_end|>",),
    ),
    Family(
        "kimi k2, thinking",
        "kimi_k2",
        section,
        (*K2, "<think>", "</think>"),
        CHATML + "{# <|tool_calls_section_begin|> <think></think> #}",
        thought=lambda text: f"<think>{text}</think>",
        endings=("</think>", "<|tool_calls_section_end|>"),
    ),
    Family(
        "kimi k2, plain text, thinking",
        "kimi_k2",
        section,
        (),
        CHATML + "{# <|tool_calls_section_begin|> <think></think> #}",
        thought=lambda text: f"<think>{text}</think>",
        endings=("</think>", "<|tool_calls_section_end|>"),
        markup=("<|tool_call_end|>",),
    ),
]
