"""Cohere's form under the suite: text framed as a response, as text, or (in a strange vocabulary) not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

ACTION = ("<|START_ACTION|>", "<|END_ACTION|>")
THINKING = ("<|START_THINKING|>", "<|END_THINKING|>")
TEMPLATE = CHATML + "{# <|START_ACTION|> #}"
MARKUP = (*ACTION, '"}}\n]', "<|END_RESPONSE|>")


def _actions(calls: Sequence[Call]) -> str:
    lines = [
        f'\n    {{"tool_call_id": "{n}", "tool_name": {json.dumps(name)}, "parameters": {written(values)}}}'
        for n, (name, values) in enumerate(calls)
    ]
    return f"<|START_ACTION|>[{','.join(lines)}\n]<|END_ACTION|>"


def _framed(kind: str, **more: Any) -> Family:
    before, after = f"<|START_{kind}|>", f"<|END_{kind}|>"
    template = more.pop("template", TEMPLATE)
    special = (*ACTION, before, after, *more.pop("special", ()))
    return Family(
        f"command r, {kind.lower()}{', thinking' if 'thought' in more else ''}",
        "command_r",
        _actions,
        special,
        template + f"{{# {before} #}}",
        said=lambda text: f"{before}{text}{after}",
        joined=lambda text, calls: f"{before}{text}{after}{calls}",
        endings=("<|END_THINKING|>", after, "\n]<|END_ACTION|>"),
        **more,
    )


FAMILIES = [
    _framed("RESPONSE", markup=MARKUP),
    _framed("TEXT", markup=MARKUP),
    _framed(
        "RESPONSE",
        special=THINKING,
        template=TEMPLATE + "{# <|START_THINKING|> #}",
        thought=lambda text: f"<|START_THINKING|>{text}<|END_THINKING|>",
    ),
    Family(
        "command r, plain text",
        "command_r",
        _actions,
        (),
        TEMPLATE,
        markup=ACTION[1:],
        endings=("\n]<|END_ACTION|>",),
    ),
]
