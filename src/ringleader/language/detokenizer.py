"""Token ids to text, one id at a time, never showing half a character.

Holds back ids whose bytes do not yet make a whole character; `flush` gives up on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringleader.tokenizer import Tokenizer

# A character has at most 4 bytes, so at most 4 ids can be waiting for one; past that the bytes are broken.
WAITING_MAX = 8
BROKEN = "\ufffd"


class Detokenizer:
    """The pieces of text that `feed` and `flush` return concatenate to the text of all ids.

    Each id is decoded together with the ones emitted just before it, because decoders treat the first id of
    a sequence in their own way (a leading space is dropped). Special tokens are text like any other. `after` are ids
    that came before the first one.
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._context = list(after)  # emitted already; only there to be decoded with what follows
        self._before = len(tokenizer.decode(self._context)) if after else 0  # characters of the context
        self._waiting: list[int] = []

    def feed(self, token: int) -> str:
        """The text that `token` completes; "" while a character is incomplete."""
        self._waiting.append(token)
        text = self._text()
        if text.endswith(BROKEN) and len(self._waiting) < WAITING_MAX:
            return ""
        self._settle()
        return text

    def flush(self) -> str:
        """What is left, without the incomplete character at its end."""
        text = self._text() if self._waiting else ""
        self._settle()
        return text.rstrip(BROKEN)

    def _text(self) -> str:
        return self._tokenizer.decode(self._context + self._waiting)[self._before :]

    def _settle(self) -> None:
        if self._waiting:
            self._context, self._waiting = self._waiting, []
            self._before = self._tokenizer.chars_alone(tuple(self._context))
