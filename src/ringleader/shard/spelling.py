"""Writes what strings may still need in the fewest tokens of one vocabulary.

Of each character only its class matters, so tokens that are alike in all classes of a form are tried as one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringleader.shard.regexes import Chars
from ringleader.shard.remainders import Form, forms

TOKEN_BYTES_MAX = 64  # longer tokens win little and are few
CLASSES_MAX = 60  # of one form, so that a byte's fit one number; richer forms are not spelled
QUOTE = b'"'
GRAMMARS_MAX = 32  # remembered; agents send the same tools with every turn

Tokens = tuple[int, ...]
Row = tuple[int, ...]  # classes of bytes, by number


@dataclass(frozen=True, slots=True)
class Remainder:
    """What may end a string. `proof` is it and what follows it (JSON's quote): only that shows an end of the string."""

    tokens: Tokens
    proof: Tokens


class Speller:
    """One vocabulary's, of an `LLTokenizer` and its tokens' bytes (empty for special ones)."""

    def __init__(self, view: Any, texts: Sequence[bytes]) -> None:
        self._quote = tuple(view.tokenize_bytes(QUOTE))
        usable = [token for token, text in enumerate(texts) if _is_usable(text)]
        usable.sort(
            key=lambda token: (not texts[token].isalpha(), not texts[token].isalnum())
        )  # of equals, the plainest
        self._tokens = np.array(usable, dtype=np.int64)
        self._lengths = np.array([len(texts[token]) for token in usable], dtype=np.int64)
        self._bytes = np.frombuffer(b"".join(texts[token] for token in usable), dtype=np.uint8)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._known: dict[str, tuple[Remainder, ...]] = {}

    def remainders(self, grammar: str) -> tuple[Remainder, ...]:
        """Of all strings of a grammar, those of the fewest tokens first."""
        if grammar not in self._known:
            if len(self._known) >= GRAMMARS_MAX:
                self._known.pop(next(iter(self._known)))
            found = dict.fromkeys(each for form in forms(grammar) for each in self._spelled(form))
            self._known[grammar] = tuple(sorted(found, key=lambda each: len(each.tokens)))
        return self._known[grammar]

    def _spelled(self, form: Form) -> list[Remainder]:
        numbers: dict[frozenset[int], int] = {}
        rows = [_row(remainder, form.quoted, numbers) for remainder in form.remainders]
        if len(numbers) > CLASSES_MAX or not len(self._tokens):
            return []
        words = _Words(self._alike(list(numbers)), self._tokens)
        end = self._quote if form.quoted else ()
        return [Remainder(spelt, spelt + end) for row in rows if (spelt := words.fewest(row))]

    def _alike(self, classes: list[frozenset[int]]) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
        """One token for each kind that the classes tell apart: which, its bytes' classes [kinds, bytes], its length."""
        table = np.zeros(256, dtype=np.uint64)
        for number, each in enumerate(classes):
            table[list(each)] |= np.uint64(1 << number)
        marks = table[self._bytes]
        legal = np.minimum.reduceat(marks, self._starts) > 0
        within = np.arange(len(marks)) - np.repeat(self._starts, self._lengths)
        weights = np.random.default_rng(1).integers(1, 1 << 62, TOKEN_BYTES_MAX).astype(np.uint64) | np.uint64(1)
        hashes = np.add.reduceat(marks * weights[within], self._starts)
        chosen = np.flatnonzero(legal)
        chosen = chosen[np.sort(np.unique(hashes[chosen], return_index=True)[1])]
        lengths = self._lengths[chosen]
        kinds = np.zeros((len(chosen), int(lengths.max(initial=1))), dtype=np.uint64)
        for n, (start, length) in enumerate(zip(self._starts[chosen], lengths, strict=True)):
            kinds[n, :length] = marks[start : start + length]
        return chosen, kinds, lengths


class _Words:
    """The kinds of tokens that one form's classes tell apart, and the best ways to write rows of classes with them."""

    def __init__(
        self, kinds: tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]], tokens: NDArray[np.int64]
    ) -> None:
        self._which, self._kinds, self._lengths = kinds
        self._tokens = tokens
        self._padding = np.arange(self._kinds.shape[1])[None, :] >= self._lengths[:, None]
        self._fitting: dict[Row, dict[int, int]] = {}
        self._best: dict[Row, Tokens | None] = {(): ()}

    def fewest(self, row: Row) -> Tokens | None:
        """The fewest tokens that spell `row`, or None if none do. From the back, so that nothing recurs."""
        for at in range(len(row) - 1, -1, -1):
            rest = row[at:]
            if rest not in self._best:
                ways = [
                    (token, *after)
                    for length, token in self._fits(rest).items()
                    if (after := self._best[rest[length:]]) is not None
                ]
                self._best[rest] = min(ways, key=len, default=None)
        return self._best[row]

    def _fits(self, row: Row) -> dict[int, int]:
        """A token for each length in which one spells the begin of `row`, the longest first."""
        window = row[: self._kinds.shape[1]]
        if window not in self._fitting:
            wanted = np.zeros(self._kinds.shape[1], dtype=np.uint64)
            wanted[: len(window)] = np.uint64(1) << np.array(window, dtype=np.uint64)
            spells = np.flatnonzero((((self._kinds & wanted) != 0) | self._padding).all(axis=1))
            found: dict[int, int] = {}
            for n in spells:
                found.setdefault(int(self._lengths[n]), int(self._tokens[self._which[n]]))
            self._fitting[window] = dict(sorted(found.items(), reverse=True))
        return self._fitting[window]


def _is_usable(text: bytes) -> bool:
    return 0 < len(text) <= TOKEN_BYTES_MAX


def _row(remainder: Sequence[Chars], quoted: bool, numbers: dict[frozenset[int], int]) -> Row:
    """The classes of bytes of a remainder's characters; new ones are numbered."""
    classes = [each for chars in remainder for each in _bytes_of(chars, quoted)]
    return tuple(numbers.setdefault(each, len(numbers)) for each in classes)


def _bytes_of(chars: Chars, quoted: bool) -> list[frozenset[int]]:
    """A character of this class: one plain byte, any of these; or where there is none, all bytes of its first."""
    plain = frozenset(code for low, high in chars for code in range(max(low, 32), min(high, 126) + 1))
    plain -= frozenset(b'"\\') if quoted else frozenset()
    if plain:
        return [plain]
    first = chr(chars[0][0])
    text = json.dumps(first, ensure_ascii=False)[1:-1] if quoted else first
    return [frozenset((byte,)) for byte in text.encode(errors="replace")]
