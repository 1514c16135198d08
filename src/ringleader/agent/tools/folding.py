"""Text folded for comparing (Unicode's compatibility forms, case, quotes, dashes, whitespace), with the way back.

Every folded character knows which characters of the original it came from. Linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from dataclasses import dataclass

import regex  # type: ignore[import-untyped]  # ships none

# Invisible, and nothing to Unicode's own caseless matching: soft hyphens, joiners, direction marks, variants.
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
# Hangul vowels and finals: they are letters, and yet join what stands before them.
_JAMO = "\u1160-\u11ff\ud7b0-\ud7ff"
_JOINING_FIRST = regex.compile(rf"[\p{{M}}{_JAMO}]")


def _joins(code: int) -> bool:
    return _JOINING_FIRST.match(unicodedata.normalize("NFKD", chr(code))) is not None


# Thai, halfwidth and compatibility letters that turn into joining ones.
_SUSPECTS = (0x0E33, 0x0EB3, *range(0x3131, 0x318F), *range(0xFF9E, 0xFFDD))
_DISGUISED = "".join(chr(code) for code in _SUSPECTS if _joins(code))
JOINING = rf"\p{{M}}{_JAMO}{_DISGUISED}{_IGNORED}"
# Letters that nothing joins are folded one by one; any other with all that joins it. Composing such pieces is then the
# same as composing the whole.
_SEGMENT = regex.compile(rf"(?P<plain>[^{JOINING}]+)(?![{JOINING}])|.[{JOINING}]*", regex.DOTALL)
_INVISIBLE = regex.compile(f"[{_IGNORED}]+")
_WORD = re.compile(r"\S+")
_CLUSTER = regex.compile(r".\p{M}*", regex.DOTALL)
_MARK = regex.compile(r"\p{M}")
_BETWEEN = "\ufdd0"  # no character, and it never will be one
_ALIKE = str.maketrans(
    dict.fromkeys("‘’‚‛ʼ", "'")
    | dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {"⁄": "/", "∕": "/", _BETWEEN: "\ufffd"}
)


@dataclass(frozen=True, slots=True)
class Folded:
    """`text` folded; its character n came from the original's `starts[n]` up to `ends[n]`."""

    text: str
    starts: array[int]
    ends: array[int]

    def find(self, other: Folded) -> tuple[int, int] | None:
        """Where `other` stands first, as offsets into the original; never a letter without its accents."""
        if not other.text:
            return None
        if _MARK.search(self.text) or _MARK.search(other.text):
            start = self._find_clusters(other.text)
        else:
            start = self.text.find(other.text)
        return None if start < 0 else (self.starts[start], self.ends[start + len(other.text) - 1])

    def _find_clusters(self, wanted: str) -> int:
        """By whole letters. What stands between them makes this one plain search, linear also for hostile texts."""
        marked = _separated(self.text)
        start = marked.find(_separated(wanted))
        return start if start < 0 else start - marked.count(_BETWEEN, 0, start)


def fold(text: str) -> Folded:
    """`text` as it is compared: what reads the same is the same. Ends have no whitespace, runs of it are one space."""
    pieces: list[str] = []
    starts, ends = array("I"), array("I")
    for segment in _SEGMENT.finditer(text):
        start, end = segment.span()
        piece = segment[0].translate(_LETTERS) if segment["plain"] else _composed(segment[0])
        if segment["plain"] and len(piece) == end - start:
            starts.extend(range(start, end))
            ends.extend(range(start + 1, end + 1))
        elif segment["plain"]:
            widths = [len(letter.translate(_LETTERS)) for letter in segment[0]]
            starts.extend(start + n for n, width in enumerate(widths) for _ in range(width))
            ends.extend(start + n + 1 for n, width in enumerate(widths) for _ in range(width))
        else:
            starts.extend([start] * len(piece))
            ends.extend([end] * len(piece))
        pieces.append(piece)
    return _spaced("".join(pieces), starts, ends)


class _Letters(dict[int, str]):
    """A table for `str.translate` that is filled as letters come up; none of them folds to nothing."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _composed(chr(code))
        return folded


_LETTERS = _Letters()


def _composed(segment: str) -> str:
    visible = unicodedata.normalize("NFKC", _INVISIBLE.sub("", segment))
    return unicodedata.normalize("NFKC", visible.casefold()).translate(_ALIKE)


def _spaced(text: str, starts: array[int], ends: array[int]) -> Folded:
    words: list[str] = []
    word_starts, word_ends = array("I"), array("I")
    for word in _WORD.finditer(text):
        start, end = word.span()
        if words:
            word_starts.append(word_ends[-1])
            word_ends.append(starts[start])
        words.append(word[0])
        word_starts.extend(starts[start:end])
        word_ends.extend(ends[start:end])
    return Folded(" ".join(words), word_starts, word_ends)


def _separated(text: str) -> str:
    return _BETWEEN + _BETWEEN.join(_CLUSTER.findall(text)) + _BETWEEN
