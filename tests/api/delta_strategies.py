"""Answers as any ring may give them, for hypothesis: deltas in an order that is possible, cut anywhere."""

from __future__ import annotations

import itertools
import json

from hypothesis import strategies as st

from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from tests.api.scripted import USAGE

TEXTS = st.sampled_from(["", " ", "\n\n", "so", "☀ and ", "a\n", "x"])


def pieces(text: str) -> st.SearchStrategy[list[str]]:
    """`text` in pieces of any sizes."""
    cuts = st.lists(st.integers(0, len(text)), max_size=4).map(lambda found: [0, *sorted(found), len(text)])
    return cuts.map(lambda at: [text[a:b] for a, b in itertools.pairwise(at)])


@st.composite
def answers(draw: st.DrawFn) -> tuple[Delta, ...]:
    """Thinking, words and calls in any order; the last call may be cut, and then the answer ends there."""
    made: list[Delta] = []
    calls, cut = 0, False
    for kind in draw(st.lists(st.sampled_from(["think", "text", "call"]), max_size=6)):
        if kind == "think":
            made += [ReasoningDelta(text) for text in draw(st.lists(TEXTS, max_size=3))]
        elif kind == "text":
            made += [TextDelta(text) for text in draw(st.lists(TEXTS, max_size=4))]
        else:
            made.append(CallStarted(calls, draw(st.sampled_from(["now", "get_weather"]))))
            arguments = draw(st.sampled_from([{}, {"city": "Oslo ☀"}, {"a": {"b": [1, 2]}, "c": '"'}]))
            text = json.dumps(arguments, ensure_ascii=False) if arguments or draw(st.booleans()) else ""
            cut = draw(st.booleans()) and draw(st.booleans())
            written = text[: len(text) // 2] if cut else text
            made += [ArgumentsDelta(calls, piece) for piece in draw(pieces(written))]
            if cut:
                break
            made.append(CallEnded(calls))
            calls += 1
    reason: FinishReason = "length" if cut or draw(st.booleans()) else "tool_calls" if calls else "stop"
    stopped_by = draw(st.sampled_from([None, "END"])) if reason == "stop" else None
    return (*made, Finished(reason, USAGE, stopped_by=stopped_by))
