"""Gemma 4 and FunctionGemma under the suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

GEMMA4 = ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>")
FUNCTION_GEMMA = ("<start_function_call>", "<end_function_call>", "<escape>")
SHOWN = CHATML + "{# <|tool_call>call: #}"


def spelled(value: Any, quote: str) -> str:
    """The value as the templates write it: keys sorted and bare."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{spelled(value[key], quote)}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return f"[{','.join(spelled(item, quote) for item in value)}]"
    return f"{quote}{value}{quote}" if isinstance(value, str) else written(value)


def writer(opens: str, close: str, quote: str, *_: str) -> Callable[[Sequence[Call]], str]:
    return lambda calls: "".join(f"{opens}call:{name}{spelled(values, quote)}{close}" for name, values in calls)


def gemma_family(label: str, dialect: str, marks: tuple[str, ...], special: tuple[str, ...], **more: Any) -> Family:
    close, quote = marks[1:3]
    return Family(
        label,
        dialect,
        writer(*marks),
        special,
        joined=lambda text, calls: text + calls,
        endings=(quote, "}", close, "<channel|>"),
        **more,
    )


FAMILIES = [
    gemma_family(
        "gemma4",
        "gemma4",
        GEMMA4,
        GEMMA4,
        template=SHOWN,
        markup=("<tool_call|>", "}<tool_call|>", '<|"|>,b:', "<|tool_call>call:now{}", '{"a":'),
    ),
    gemma_family(
        "gemma4, thinking",
        "gemma4",
        GEMMA4,
        GEMMA4,
        template=SHOWN + "{# <|channel>thought #}",
        thought=lambda text: f"<|channel>thought\n{text}\n<channel|>",
    ),
    gemma_family("gemma4, plain text", "gemma4", GEMMA4, (), template=SHOWN, markup=("<tool_call|>", "}", '<|"')),
    gemma_family(
        "function_gemma",
        "function_gemma",
        FUNCTION_GEMMA,
        FUNCTION_GEMMA,
        markup=("<escape>", "}<end_function_call>", "<start_function_call>call:now{}"),
    ),
    gemma_family(
        "function_gemma, plain text",
        "function_gemma",
        FUNCTION_GEMMA,
        (),
        template=CHATML + "{# <start_function_call>call: #}",
        markup=("<end_function_call>",),
    ),
]
