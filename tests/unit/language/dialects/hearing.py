"""What a client sees of an answer that is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringleader.language.dialects.dialect import Dialect
from ringleader.language.stream import StreamParser
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from ringleader.values import Delta, FinishReason, Json, Tool
from tests.unit.language.builders import Collected, collect


def hear(
    dialect: Dialect,
    tokenizer: Tokenizer,
    answer: str | Sequence[int],
    tools: tuple[Tool, ...],
    choice: Json = "auto",
    reason: FinishReason = "stop",
    **more: Any,
) -> Collected:
    """The answer, fed one id at a time; checked to be the same when it is fed at once."""
    ids = tokenizer.encode(answer) if isinstance(answer, str) else list(answer)
    found = []
    for size in (1, len(ids) or 1):
        parser = StreamParser(
            dialect,
            tokenizer,
            normalise(choice, tools, True),
            schemas={tool.name: tool.parameters or {} for tool in tools},
            **more,
        )
        deltas: list[Delta] = []
        for at in range(0, len(ids), size):
            deltas += parser.feed(ids[at : at + size])
        found.append(collect(deltas + parser.finish(reason)))
    assert found[0] == found[1]
    return found[0]
