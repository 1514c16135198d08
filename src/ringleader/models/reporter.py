"""How the models room tells a person what it is doing. It declares the shape; the command line draws it.

Nothing in this room prints or logs.
"""

from __future__ import annotations

from typing import Literal, Protocol

Unit = Literal["bytes", "tensors"]


class Reporter(Protocol):
    """Told in this order, for each stage: `stage`, any number of `advance`, `done`.

    A stage that fails is never `done`: the error tells the rest. `advance` is cheap and may come thousands of
    times, from one thread at a time; `total` may be 0 while it is not known.
    """

    def stage(self, name: str) -> None:
        """A new stage begins; `name` is a few words ("fetch smollm2-135m")."""

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """`done` of `total` units are finished since the stage began."""

    def done(self, note: str) -> None:
        """The stage ended well; `note` says in a few words what came of it."""


class Silent:
    """A reporter for callers that show nothing."""

    def stage(self, name: str) -> None:
        """Ignored."""

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """Ignored."""

    def done(self, note: str) -> None:
        """Ignored."""
