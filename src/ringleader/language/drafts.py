"""Deltas while they may still grow: neighbours of one kind become one, however finely the parser works."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)

Kind = Literal["text", "reasoning", "started", "arguments", "ended"]


@dataclass(slots=True)
class Draft:
    """A delta that may still grow. `text` is the name for a started call."""

    kind: Kind
    index: int
    text: str
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)

    def delta(self) -> Delta:
        tokens = tuple(self.tokens)
        if self.kind == "text":
            return TextDelta(self.text, tokens, tuple(self.logprobs))
        if self.kind == "reasoning":
            return ReasoningDelta(self.text, tokens)
        if self.kind == "started":
            return CallStarted(self.index, self.text, tokens)
        if self.kind == "arguments":
            return ArgumentsDelta(self.index, self.text, tokens)
        return CallEnded(self.index, tokens)
