"""An incremental reader of one call written as a JSON object with a name and arguments.

Knows strings, escapes and depth, so that braces and markers inside strings stay what they are. Lenient in
what constrained models never write: any key order, free whitespace, other keys, no arguments at all.

    begin -{-> key -"-> key text -"-> colon -:-> value -> comma -,-> key
                 \\-}-> done                                 \\-}-> done        anything else -> broken
"""

from __future__ import annotations

import json
from typing import Literal

State = Literal["begin", "key", "key text", "colon", "value", "comma", "done", "broken"]
WHITESPACE = " \t\r\n"
ARGUMENT_KEYS = {"arguments", "parameters"}


class JsonCallReader:
    """See `dialect.CallReader`."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._state: State = "begin"
        self._key = ""
        self._value: list[str] = []  # the value that is being read
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._arguments: str | None = None  # whole, once read
        self._given = 0  # characters of the arguments that were handed out

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def broken(self) -> bool:
        return self._state == "broken"

    def push(self, char: str) -> str:
        if self._state == "key text":
            self._read_key(char)
        elif self._state == "value":
            return self._read_value(char)
        elif char not in WHITESPACE:
            return self._read_punctuation(char)
        return ""

    def _read_punctuation(self, char: str) -> str:
        if self._state == "begin" and char == "{":
            self._state = "key"
        elif self._state == "key" and char == '"':
            self._state, self._value = "key text", ['"']
        elif self._state == "colon" and char == ":":
            self._state, self._value = "value", []
        elif self._state == "comma" and char == ",":
            self._state = "key"
        elif self._state in {"comma", "key"} and char == "}":
            return self._end()
        else:
            self._state = "broken"
        return ""

    def _read_key(self, char: str) -> None:
        self._value.append(char)
        if self._string_ended(char):
            key = _decoded("".join(self._value))
            self._state = "colon" if isinstance(key, str) else "broken"
            self._key = str(key)

    def _read_value(self, char: str) -> str:
        if not self._value:
            return self._begin_value(char)
        opener = self._value[0]
        if opener not in '{["':
            if char in WHITESPACE or char in ",}":
                piece = self._end_value()
                return piece + (self.push(char) if not self.broken else "")
            self._value.append(char)
            return ""
        self._value.append(char)
        if self._closes(char):
            return self._end_value()
        return self._certain(char)

    def _begin_value(self, char: str) -> str:
        if char in WHITESPACE:
            return ""
        if char in ",}]:" or (self._reads_arguments and char != "{") or (self._reads_name and char != '"'):
            self._state = "broken"
            return ""
        self._value = [char]
        self._depth = 1 if char in "{[" else 0
        self._in_string = char == '"'
        return self._certain(char)

    def _closes(self, char: str) -> bool:
        """Whether `char` is the last one of a string, object or array that is being read."""
        if self._in_string:
            if self._string_ended(char):
                self._in_string = False
                return self._depth == 0
            return False
        if char == '"':
            self._in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            return self._depth == 0
        return False

    def _string_ended(self, char: str) -> bool:
        if self._escaped:
            self._escaped = False
            return False
        self._escaped = char == "\\"
        return char == '"'

    def _end_value(self) -> str:
        text = "".join(self._value)
        self._state, piece = "comma", ""
        if self._reads_name:
            name = _decoded(text)
            if not isinstance(name, str):
                self._state = "broken"
                return ""
            self.name, piece = name, self._arguments or ""
        elif self._reads_arguments:
            if not isinstance(_decoded(text), dict):
                self._state = "broken"
                return ""
            self._arguments = text
            piece = "" if self.name is None else text[self._given :]
        self._value = []
        return piece

    def _end(self) -> str:
        self._state = "broken" if self.name is None else "done"
        return "{}" if self.done and self._arguments is None else ""

    def _certain(self, char: str) -> str:
        if not self._reads_arguments or self.name is None:
            return ""
        self._given += 1
        return char

    @property
    def _reads_name(self) -> bool:
        return self._key == "name" and self.name is None

    @property
    def _reads_arguments(self) -> bool:
        return self._key in ARGUMENT_KEYS and self._arguments is None


def _decoded(text: str) -> object:
    """The JSON value of `text`, or None where it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")
