"""Waits for markup between values: one of several texts, past what models write there without meaning."""

from __future__ import annotations

from collections.abc import Iterable

WHITESPACE = " \t\r\n"


class Awaited:
    """Fed characters until one of `texts` (none may begin another) is whole, or none can come any more."""

    def __init__(self, texts: Iterable[str], stray: str = WHITESPACE) -> None:
        self.broken = False
        self._texts = tuple(texts)
        self._stray = stray
        self._held = ""

    def push(self, char: str) -> str | None:
        """The text that `char` completes, if it does."""
        self._held = (self._held + char).lstrip(self._stray)
        if not self._held:
            return None
        if self._held in self._texts:
            return self._held
        self.broken = not any(text.startswith(self._held) for text in self._texts)
        return None


def overlap(text: str, awaited: str) -> int:
    """The length of the longest end of `text` that `awaited` begins with, short of the whole."""
    for length in range(min(len(awaited) - 1, len(text)), 0, -1):
        if awaited[length - 1] == text[-1] and text.endswith(awaited[:length]):
            return length
    return 0
