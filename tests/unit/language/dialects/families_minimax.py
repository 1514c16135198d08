"""MiniMax M2 and M1 under the suite: their outer tags as tokens and as plain text, with reasoning and without."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML, THINKING

TAGS = ("<minimax:tool_call>", "</minimax:tool_call>")
SHOWN = '{# <minimax:tool_call> <invoke name="f"> #}'


def block(calls: Sequence[Call]) -> str:
    return f"<minimax:tool_call>\n{''.join(_invoke(call) for call in calls)}</minimax:tool_call>"


def _invoke(call: Call) -> str:
    name, values = call
    pairs = [
        f'<parameter name="{key}">{value if isinstance(value, str) else written(value)}</parameter>\n'
        for key, value in values.items()
    ]
    return f'<invoke name="{name}">\n{"".join(pairs)}</invoke>\n'


def lines(calls: Sequence[Call]) -> str:
    written_calls = [f'{{"name": "{name}", "arguments": {written(values)}}}\n' for name, values in calls]
    return f"<tool_calls>\n{''.join(written_calls)}</tool_calls>"


LINES = ("<tool_calls>", "</tool_calls>")
LINES_SHOWN = '{# <tool_calls> {"name": <tool-name> #}'
MARKUP = ("</invoke>\n</minimax:tool_call>", '<parameter name="text">', "<minimax:tool_call>")

FAMILIES = [
    Family(
        "minimax m2",
        "minimax_m2",
        block,
        TAGS,
        CHATML + SHOWN,
        markup=MARKUP,
        endings=("</parameter>", "\n</minimax:tool_call>"),
    ),
    Family(
        "minimax m2, plain text, thinking",
        "minimax_m2",
        block,
        (),
        CHATML + SHOWN + "{# <think> </think> #}",
        thought=lambda text: f"<think>\n{text}\n</think>\n\n",
        markup=MARKUP[1:],
        endings=("</think>", "</parameter>", "\n</minimax:tool_call>"),
    ),
    Family("minimax m1", "minimax_m1", lines, LINES, CHATML + LINES_SHOWN, markup=(*LINES, '{"name": "now"}')),
    Family("minimax m1, plain text", "minimax_m1", lines, (), CHATML + LINES_SHOWN, markup=LINES),
]
IN_REASONING = THINKING + SHOWN
