"""What every dialect provides: its markers, its grammar rules, and a reader of one call.

A dialect knows how one model family writes tool calls and reasoning; it never sees the wire or the ring.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ringleader.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Marker:
    """A piece of markup. `token` is its id where the vocabulary has it as one special token, else None.

    The same text made of ordinary tokens is then not the marker: it is text that somebody wrote.
    """

    text: str
    token: int | None

    @property
    def lark(self) -> str:
        """The marker in a grammar: by id, or quoted."""
        return json.dumps(self.text) if self.token is None else f"<[{self.token}]>"


@dataclass(frozen=True, slots=True)
class CallRule:
    """One tool as the grammar must let it be called: its name and the JSON text of its closed schema."""

    name: str
    schema: str


class CallReader(Protocol):
    """Reads the inside of one call, a character at a time."""

    @property
    def name(self) -> str | None:
        """The tool's name as soon as it is whole."""

    @property
    def done(self) -> bool:
        """The call is complete and its arguments are one JSON object."""

    @property
    def broken(self) -> bool:
        """The characters so far can never become a call."""

    def push(self, char: str) -> str:
        """Take one character; gives the piece of the arguments' JSON text that became certain, mostly "".

        Gives nothing before the name is known, and nothing once `done` or `broken`.
        """


class Dialect(Protocol):
    """One family's way to write calls and reasoning, resolved against one vocabulary."""

    @property
    def call_open(self) -> Marker: ...

    @property
    def call_close(self) -> Marker: ...

    @property
    def think_open(self) -> Marker: ...

    @property
    def think_close(self) -> Marker: ...

    @property
    def thinks(self) -> bool:
        """Whether the model may begin its answer with reasoning."""

    def call_rules(self, calls: Sequence[CallRule]) -> str:
        """Lark rules: `call` is one whole call, `call_rest` the same without its opening marker."""

    def separator(self) -> str:
        """The text between two calls."""

    def reader(self) -> CallReader:
        """A fresh reader for one call; it is fed what follows the opening marker."""


def marker(tokenizer: Tokenizer, text: str) -> Marker:
    """The marker `text` as this vocabulary has it."""
    token = tokenizer.token_id(text)
    return Marker(text, token if token is not None and tokenizer.is_special(token) else None)
