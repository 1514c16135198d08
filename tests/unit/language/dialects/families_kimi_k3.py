"""Kimi K3 under the suite: outside its template (the answer may think), and with the template that it is given."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

TOKENS = ("<|open|>", "<|close|>", "<|sep|>")
TEMPLATE = CHATML + "{# <|open|> <|close|> <|sep|> #}"
SILENT = "<|open|>response<|sep|><|close|>response<|sep|>"


def block(calls: Sequence[Call]) -> str:
    inside = "".join(_call(number, call) for number, call in enumerate(calls, 1))
    return f"{SILENT}<|open|>tools<|sep|>{inside}<|close|>tools<|sep|>"


def _call(number: int, call: Call) -> str:
    name, values = call
    pairs = [
        f'<|open|>argument key="{key}" type="{_kind(value)}"<|sep|>{_raw(value)}<|close|>argument<|sep|>'
        for key, value in values.items()
    ]
    return f'<|open|>call tool="{name}" index="{number}"<|sep|>{"".join(pairs)}<|close|>call<|sep|>'


def _kind(value: object) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _raw(value: object) -> str:
    return value if isinstance(value, str) else written(value)


def said(text: str) -> str:
    return f"<|open|>response<|sep|>{text}<|close|>response<|sep|>"


FAMILIES = [
    Family(
        "kimi k3",
        "kimi_k3",
        block,
        TOKENS,
        TEMPLATE,
        thought=lambda text: f"<|open|>think<|sep|>{text}<|close|>think<|sep|>",
        said=said,
        joined=lambda text, calls: said(text) + calls.removeprefix(SILENT),
        markup=(*TOKENS, "<|close|>argument<|sep|>", '" type="string"'),
        endings=("<|close|>think<|sep|>", "<|close|>argument<|sep|>", "<|close|>call<|sep|><|close|>tools<|sep|>"),
    )
]
