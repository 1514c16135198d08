"""What the loop wants of a backend: one turn, whole or as it is written. A new provider is one class of this shape."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ringleader.values import Json


@dataclass(frozen=True, slots=True)
class Piece:
    """More of a turn, for whoever watches: text, or the model's thinking. Calls come whole, with the turn."""

    kind: Literal["text", "reasoning"]
    text: str


@dataclass(frozen=True, slots=True)
class Whole:
    """The last thing that a stream gives: the canonical dict of the turn."""

    completion: dict[str, Json]


class Backend(Protocol):
    """`messages`, `tools` and `tool_choice` are Chat Completions' own; any spelling of a choice is read.

    Both methods raise ValueError for a choice that names no tool of `tools`, before anything is sent; the faults of
    `backends.faults` for what the provider says or does; and cancel the request when they are cancelled.
    """

    @property
    def name(self) -> str:
        """What people call it: `ring`, `openai`, ..."""

    @property
    def model(self) -> str:
        """The model's id as the provider knows it; "" while a default is not chosen yet."""

    @property
    def supports_tool_choice(self) -> bool:
        """Whether a choice is passed on and kept to; only a delegated provider may say no."""

    async def complete_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Json]:
        """One turn as the canonical dict (see `completions`)."""

    def stream_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[Piece | Whole]:
        """The same turn in pieces, and then `Whole`."""

    async def close(self) -> None:
        """Let go of connections."""
