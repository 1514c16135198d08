"""Orders a vocabulary by how soon each token brings an answer to its end: what `closing.py` tries first.

Read from the tokens' bytes alone, once per tokenizer; the grammar's mask decides what is legal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.int64]  # token ids

QUOTES = b"\"'`"
CLOSERS = QUOTES + b"}])>"
STRUCTURE = CLOSERS + b",:;{[(<|/= \t\r\n"
ENDING_MARKER = re.compile(rb"/|end|close|stop|eo[a-z]|return", re.IGNORECASE)
LENGTH_MAX = 64  # bytes; longer tokens win nothing more
LONG_MAX = 2048  # tokens looked at where only length counts

# Classes of tokens: the hundreds of a sort key, whose rest orders tokens within a class.
_END, _END_MARKER, _EMPTY, _CLOSE, _CLOSE_ON, _CLOSE_ONE, _MARKER, _LINE, _ON = range(0, 900, 100)
_DIGIT, _LETTER, _TEXT, _OTHER, _OPEN, _FOREIGN, _NEVER = range(900, 1600, 100)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to choose. `narrow` holds where the grammar allows little: between values, in numbers and names.

    `wide` holds inside free text, and is only what may end it there: markers, then for each kind of quote what
    begins with it.
    """

    narrow: Order
    wide: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """A vocabulary's orders. `ways` are to be tried in turn; `long` begins with the longest plain text.

    `onward` is what ends a number, a word or white space that nothing needs to be added to: all else, white space
    first. `endless` says of each token whether it is such a thing, `digits` whether it is only digits,
    `text` whether it is text without structure, `closing` whether it ends or closes something.
    """

    ways: tuple[Way, ...]
    long: Order
    onward: Order
    endless: NDArray[np.bool_]
    digits: NDArray[np.bool_]
    text: NDArray[np.bool_]
    closing: NDArray[np.bool_]


def rank_tokens(view: Any, eos_ids: frozenset[int]) -> Ranking:
    """The orders of the vocabulary of `view` (an `LLTokenizer`); takes up to half a second.

    The first way goes on with the structure where it closes (`", "` before `"`), the second closes one thing at
    a time, the third prefers long words to short ones where nothing can be closed yet.
    """
    texts = [bytes(view.decode_bytes([token])) for token in range(view.vocab_size)]
    classes = [_rank(token, text, eos_ids, view.is_special_token(token)) for token, text in enumerate(texts)]
    ranks = np.array(classes, dtype=np.int64)
    lengths = np.array([min(len(text), LENGTH_MAX) for text in texts], dtype=np.int64)
    single = np.where((ranks >= _CLOSE_ONE) & (ranks < _MARKER), ranks - 150, ranks)
    words = (ranks >= _DIGIT) & (ranks < _OTHER)
    lasting = np.where(words, _DIGIT + LENGTH_MAX - lengths, ranks)
    first = np.array([text[0] if text else 0 for text in texts])
    marks = (ranks < _EMPTY) | ((ranks >= _MARKER) & (ranks < _LINE))
    ends = [marks, *((first == quote) & (ranks >= _CLOSE) & (ranks < _MARKER) for quote in QUOTES)]
    ways = tuple(Way(_sorted(each), tuple(_sorted(each, kind) for kind in ends)) for each in (ranks, single, lasting))
    blank = np.array([not text.strip() for text in texts])
    onward = _sorted(np.where(blank, lengths - LENGTH_MAX - 1, ranks), ~words)
    digits = (ranks >= _DIGIT) & (ranks < _LETTER)
    text = (ranks >= _DIGIT) & (ranks < _NEVER) & ((ranks < _OPEN) | (ranks >= _FOREIGN))
    return Ranking(ways, _sorted(-lengths, words)[:LONG_MAX], onward, words | blank, digits, text, ranks < _LINE)


def _sorted(ranks: NDArray[np.int64], chosen: NDArray[np.bool_] | None = None) -> Order:
    order = np.argsort(ranks, kind="stable")
    return order if chosen is None else order[chosen[order]]


def _rank(token: int, text: bytes, eos_ids: frozenset[int], special: bool) -> int:
    if token in eos_ids:
        return _END
    if special:
        return _END_MARKER if ENDING_MARKER.search(text) else _MARKER
    core = text.strip()
    if not core:
        # A line ends before a closing bracket; where more items could follow instead, this is the shorter way.
        return (_LINE if b"\n" in text else _OPEN) + min(len(text), 99) if text else _NEVER
    closes = len(core) - len(core.lstrip(CLOSERS))
    within = max(0, 80 - 10 * closes) + min(9, len(text) - closes)
    if core[:2] in (b'""', b"''"):
        return _EMPTY + within
    if closes == len(core):
        return (_CLOSE if closes > 1 else _CLOSE_ONE) + within
    if closes and not core.strip(STRUCTURE):
        return _CLOSE_ON + within
    if core[:1] in b",:" and not core.strip(STRUCTURE):
        return _ON + min(len(text), LENGTH_MAX)
    return _rank_of_text(core) + min(len(text), LENGTH_MAX)


def _rank_of_text(core: bytes) -> int:
    if core.isdigit():
        return _DIGIT + (core[:1] == b"0")
    if not core.isascii():
        return _FOREIGN
    if core.isalpha():
        return _LETTER if len(core) == 1 else _TEXT
    return _OPEN if any(char in b"{[(<\\" for char in core) or core[:1] in b"-+" else _OTHER
