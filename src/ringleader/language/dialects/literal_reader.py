"""Reads arguments written as a language's literals into JSON text, a character at a time.

Takes more than any one family's grammar writes: keys bare or quoted, `=` or `:`, quotes of all kinds, the words
of Python and of JSON.
"""

from __future__ import annotations

import ast
import json
import re

from ringleader.language.dialects.dialect import Marker
from ringleader.language.dialects.markup import WHITESPACE, overlap

WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
CLOSERS = {"{": "}", "[": "]"}
SIMPLE = {char: f"\\{char}" for char in 'nrtbf"\\'} | {"'": "'", "/": "/", "\n": "", "a": "\\u0007", "v": "\\u000b"}
HEX = {"x": 2, "u": 4, "U": 8}


class LiteralReader:
    """Reads `key=value, ...` up to `close`, which it takes, and gives one JSON object's text in pieces.

    key -=-> value -end of it-> next -,-> key      next -close-> done (or out of a nested list or object)
    `quote` stands around raw strings. `barewords`: what is no literal at all is a string, else it is an error.
    """

    def __init__(self, close: str, quote: Marker | None = None, *, barewords: bool = False) -> None:
        self.done = False
        self.broken = False
        self._quote = quote
        self._barewords = barewords
        self._closers = [close]
        self._counts = [0]  # members so far, of each level
        self._place = "key"
        self._after = ""  # the place in which what may become the quote began
        self._held = ""  # a bare key or word, or what may become the quote
        self._string: _Quoted | None = None
        self._piece = "{"

    def push(self, char: str) -> str:
        """The piece of JSON text that `char` makes certain."""
        if self.done or self.broken:
            return ""
        if self._string is not None:
            self._read_string(self._string, char)
        elif self._place == "word" or self._place == "bare key":
            self._read_word(char)
        elif self._place == "quote":
            self._begin_quote(char)
        elif char not in WHITESPACE:
            self._read_mark(char)
        piece, self._piece = self._piece, ""
        return "" if self.broken else piece

    def meet(self, marker: Marker) -> str:
        """Take a special token; only the quote means something."""
        raw = self._string is not None and self._string.raw
        if marker != self._quote or self.broken or not (raw or self._place in {"key", "value"}):
            self.broken = True
            return ""
        if raw:
            self._end_string()
        else:
            self._begin_string("")
        piece, self._piece = self._piece, ""
        return piece

    # ------------------------------------------------------------ marks

    def _read_mark(self, char: str) -> None:
        quote = self._quote.text if self._quote is not None and self._quote.token is None else ""
        if char == self._closers[-1] and self._place != "assign" and not self._waits:
            self._close(char)
        elif self._place == "next" and char == ",":
            self._place = "key" if self._closers[-1] != "]" else "value"
        elif self._place == "assign" and char in "=:":
            self._piece, self._place = self._piece + ": ", "value"
        elif self._place in {"key", "value"} and quote and char == quote[0]:
            self._held, self._after = char, self._place
            self._place = "quote"
            self._begin_quote("")
        elif self._place in {"key", "value"} and char in "\"'":
            self._begin_string(char)
        elif self._place == "value" and char in CLOSERS:
            self._member()
            self._piece += char
            self._closers.append(CLOSERS[char])
            self._counts.append(0)
            self._place = "key" if char == "{" else "value"
        elif self._place in {"key", "value"} and char not in ",=:()[]{}":
            self._held, self._place = char, "bare key" if self._place == "key" else "word"
        else:
            self.broken = True

    @property
    def _waits(self) -> bool:
        """A key has been given its sign, and no value yet."""
        return self._place == "value" and self._closers[-1] != "]"

    def _close(self, char: str) -> None:
        self._closers.pop()
        self._counts.pop()
        self._piece += "]" if char == "]" else "}"
        self.done = not self._closers
        self._place = "next"

    def _member(self) -> None:
        """A key, or an item of a list, begins."""
        if self._closers[-1] == "]" or self._place != "value":
            self._piece += ", " if self._counts[-1] else ""
            self._counts[-1] += 1

    # ------------------------------------------------------------ words

    def _read_word(self, char: str) -> None:
        if self._place == "bare key" and char in "=:":
            self._place = "key"
            self._member()
            self._piece += f"{_text(self._held.strip())}: "
            self._place, self._held = "value", ""
        elif self._place == "word" and char in ",)]}":
            word, self._held = self._held.strip(), ""
            found = _literal(word) or (_text(word) if self._barewords else None)
            if found is None:
                self.broken = True
                return
            self._place = "value"
            self._member()
            self._piece, self._place = self._piece + found, "next"
            self._read_mark(char)
        elif char in ",()[]{}'\"=:" and not (self._barewords and self._place == "word"):
            self.broken = True
        else:
            self._held += char

    # ------------------------------------------------------------ strings

    def _begin_quote(self, char: str) -> None:
        """What may become a quote of plain text."""
        assert self._quote is not None
        self._held += char
        if self._held == self._quote.text:
            self._place, self._held = self._after, ""
            self._begin_string("")
        elif not self._quote.text.startswith(self._held):
            self.broken = True

    def _begin_string(self, delimiter: str) -> None:
        self._member()
        self._piece += '"'
        plain = self._quote.text if self._quote is not None and self._quote.token is None else ""
        self._string = _Quoted(delimiter or plain, raw=not delimiter)

    def _read_string(self, string: _Quoted, char: str) -> None:
        self._piece += string.push(char)
        self.broken = string.broken
        if string.done:
            self._end_string()

    def _end_string(self) -> None:
        self._piece, self._string = self._piece + '"', None
        self._place = "assign" if self._place == "key" else "next"


class _Quoted:
    """The inside of one string, as the inside of a JSON string. `raw`: nothing is escaped in it."""

    def __init__(self, delimiter: str, *, raw: bool) -> None:
        self.raw = raw
        self.done = False
        self.broken = False
        self._delimiter = delimiter
        self._held = ""

    def push(self, char: str) -> str:
        self._held += char
        if self.raw:
            return self._push_raw()
        if not self._held.startswith("\\"):
            self._held = ""
            self.done = char == self._delimiter
            return "" if self.done else _inside(char)
        return "" if len(self._held) == 1 else self._escape(self._held[1:])

    def _push_raw(self) -> str:
        text = self._held
        if self._delimiter and text.endswith(self._delimiter):
            self.done, self._held = True, ""
            return _inside(text.removesuffix(self._delimiter))
        keep = overlap(text, self._delimiter) if self._delimiter else 0
        self._held = text[len(text) - keep :]
        return _inside(text[: len(text) - keep])

    def _escape(self, escape: str) -> str:
        kind, digits = escape[0], escape[1:]
        if kind in HEX and len(digits) < HEX[kind]:
            return ""
        self._held = ""
        if kind in HEX:
            return self._of_code(kind, digits)
        return "\\u0000" if kind == "0" else SIMPLE.get(kind, "\\\\" + _inside(kind))

    def _of_code(self, kind: str, digits: str) -> str:
        try:
            code = int(digits, 16)
            return f"\\u{code:04x}" if code < 0x10000 else _inside(chr(code))
        except (ValueError, OverflowError):
            self.broken = True
            return ""


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _inside(text: str) -> str:
    return _text(text)[1:-1]


def _literal(word: str) -> str | None:
    """The JSON of a word that is a literal of JSON or of Python."""
    if word in WORDS or NUMBER.fullmatch(word):
        return WORDS.get(word, word)
    try:
        value = ast.literal_eval(word)
        return json.dumps(value, allow_nan=False) if isinstance(value, int | float) else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
