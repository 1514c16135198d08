"""Llama's JSON under the suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

SHOWN = CHATML + '{# {"name": function name, "parameters" #}'
TAG = "<|python_tag|>"


def _objects(calls: Sequence[Call]) -> str:
    return "; ".join(f'{{"name": {written(name)}, "parameters": {written(values)}}}' for name, values in calls)


def llama_family(label: str, special: tuple[str, ...], **more: Any) -> Family:
    return Family(
        label,
        "llama_json",
        _objects,
        special,
        SHOWN,
        said=lambda text: text,
        markup=('{"name": "now", "parameters": {}}', "<|python_tag|>", "}}; "),
        **more,
    )


FAMILIES = [
    llama_family(
        "llama_json",
        (TAG, "<|eom_id|>"),
        ends=("<|im_end|>", "<|eom_id|>"),
        joined=lambda text, calls: text + TAG + calls,
    ),
    llama_family("llama_json, no python tag", (), talks=False, joined=lambda text, calls: calls),
]
