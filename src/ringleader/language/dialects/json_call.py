"""Incremental readers of calls written as JSON: one call object, blocks of them, or arguments alone.

They know strings, escapes and depth, so that braces and markers inside strings stay what they are. Lenient in
what constrained models never write: any key order, free whitespace, other keys, no arguments at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ringleader.language.dialects.dialect import (
    Arguments,
    CallEvent,
    CallRule,
    Ended,
    Marker,
    Started,
    State,
)
from ringleader.language.dialects.markup import WHITESPACE, Awaited

STRAY = WHITESPACE + "}"  # what models write between a call's JSON and what closes it


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a call object. The grammar writes the first of each; `before` is written ahead of them."""

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    before: str = ""


NAME_AND_ARGUMENTS = Keys()


def object_rules(rule: str, calls: Sequence[CallRule], keys: Keys = NAME_AND_ARGUMENTS, after: str = "") -> str:
    """Lark: `rule` is one call object. `after` is lark for what stands between the arguments and the brace."""
    lines = [f"{rule}: " + " | ".join(f"{rule}_{n}" for n in range(len(calls)))]
    for n, call in enumerate(calls):
        # Schemas stand alone and not inside a wrapper's, so that their `$ref: "#/..."` still point right.
        head = f'{{{keys.before}"{keys.name[0]}": {json.dumps(call.name)}, "{keys.arguments[0]}": '
        lines += [f'{rule}_{n}: {json.dumps(head)} {rule}_arguments_{n} {after} "}}"']
        lines += [f"{rule}_arguments_{n}: %json {call.text}"]
    return "\n".join(lines)


# ---------------------------------------------------------------- blocks


class JsonBlock:
    """A `BlockReader` of one call object, or of an array of them, up to the closing marker where there is one."""

    def __init__(self, close: Marker | None, *, array: bool = False, keys: Keys = NAME_AND_ARGUMENTS) -> None:
        self.state: State = "open"
        self._close = close
        self._keys = keys
        self._brackets = array
        self._call: JsonCallReader | None = None if array else JsonCallReader(keys)
        self._started = False
        self._whole = False  # no more calls can come: only the closing marker
        self._awaited = Awaited(["["])

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        return self._read(self._call, char) if self._call is not None else self._punctuate(char)

    def meet(self, marker: Marker) -> list[CallEvent]:
        closes = marker == self._close and self._call is None and self._whole
        self.state = "done" if closes else "broken"
        return []

    def _read(self, call: JsonCallReader, char: str) -> list[CallEvent]:
        events: list[CallEvent] = []
        piece = call.push(char)
        if not self._started and call.name is not None:
            events.append(Started(call.name))
            self._started = True
        if call.broken:
            self.state = "broken"
            return events
        if piece:
            events.append(Arguments(piece))
        if call.done:
            events.append(Ended())
            self._call, self._started = None, False
            self._expect_more() if self._brackets else self._expect_close()
        return events

    def _punctuate(self, char: str) -> list[CallEvent]:
        found = self._awaited.push(char)
        if self._awaited.broken:
            self.state = "broken"
        elif found == "]":
            self._expect_close()
        elif found == "[" or found == ",":
            self._call = JsonCallReader(self._keys)
        elif found is not None:
            self.state = "done"
        return []

    def _expect_more(self) -> None:
        self._awaited = Awaited([",", "]"], STRAY)

    def _expect_close(self) -> None:
        self._whole = True
        if self._close is None:
            self.state = "done"
        else:
            self._awaited = Awaited([] if self._close.token is not None else [self._close.text], STRAY)


class ArgumentsReader:
    """Reads one JSON object, the arguments of a call whose name is known."""

    def __init__(self) -> None:
        self._call = JsonCallReader()
        for char in '{"name": "", "arguments":':
            self._call.push(char)

    @property
    def done(self) -> bool:
        return self._call.has_arguments

    @property
    def broken(self) -> bool:
        return self._call.broken

    def push(self, char: str) -> str:
        """Gives the piece of the object's text that became certain."""
        return "" if self.done else self._call.push(char)


# ---------------------------------------------------------------- one object

Place = Literal["begin", "key", "key text", "colon", "value", "comma", "done", "broken"]


class JsonCallReader:
    """Reads one call object.

    begin -{-> key -"-> key text -"-> colon -:-> value -> comma -,-> key
                 \\-}-> done                                 \\-}-> done        anything else -> broken
    """

    def __init__(self, keys: Keys = NAME_AND_ARGUMENTS) -> None:
        self._keys = keys
        self.name: str | None = None
        self._state: Place = "begin"
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

    @property
    def has_arguments(self) -> bool:
        """The arguments are whole."""
        return self._arguments is not None

    def push(self, char: str) -> str:
        """The piece of the arguments' JSON text that `char` makes certain, mostly "". Gives nothing before the
        name is known, and nothing once `done` or `broken`."""
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
        return self._key in self._keys.name and self.name is None

    @property
    def _reads_arguments(self) -> bool:
        return self._key in self._keys.arguments and self._arguments is None


def _decoded(text: str) -> object:
    """The JSON value of `text`, or None where it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")
