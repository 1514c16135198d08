"""Calls framed by markers around a name and one JSON object of arguments, for any family's markers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import Arguments, CallEvent, CallRule, Ended, Marker, Started, State
from ringleader.language.dialects.json_call import ArgumentsReader
from ringleader.language.dialects.markup import WHITESPACE, Awaited


def stripped(name: str) -> str:
    """The name as it was written, without whitespace around it."""
    return name.strip()


@dataclass(frozen=True, slots=True)
class MarkedForm:
    """`begin` NAME `middle` {...} `end`, repeated, then `close`. Each but `middle` may be missing (None).

    `opened`: the block's opening marker was the first call's `begin`. `name_of` reads a tool's name out of what
    stands before `middle`, `before_name` is what the grammar writes ahead of it.
    """

    begin: Marker | None
    middle: Marker
    end: Marker | None
    close: Marker | None
    opened: bool = False
    name_of: Callable[[str], str] = stripped
    before_name: str = ""
    aside: str = ""  # lark of what may stand between a name and `middle`
    after: str = ""  # what stands between the arguments and `end`

    def rules(self, rule: str, calls: Sequence[CallRule]) -> str:
        """Lark: `rule` is one call from its name to its `end`, without `begin`."""
        after = json.dumps(self.after) if self.after else ""
        end = self.end.lark if self.end is not None else ""
        lines = [f"{rule}: " + " | ".join(f"{rule}_{n}" for n in range(len(calls)))]
        for n, call in enumerate(calls):
            name = json.dumps(self.before_name + call.name)
            lines += [f"{rule}_{n}: {name} {self.aside} {self.middle.lark} {rule}_arguments_{n} {after} {end}"]
            lines += [f"{rule}_arguments_{n}: %json {call.text}"]
        return "\n".join(lines)


class MarkedReader:
    """A `BlockReader` of a `MarkedForm`. A missing `end` is forgiven.

    between -begin-> name -middle-> arguments -whole-> between -close-> done

    With `begun` it begins at the arguments of a call whose name was told already.
    """

    def __init__(self, form: MarkedForm, *, begun: bool = False) -> None:
        self.state: State = "open"
        self._form = form
        self._place = "arguments" if begun else "name" if form.opened or form.begin is None else "between"
        self._held = ""
        self._arguments = ArgumentsReader()
        self._awaited = self._between()

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._place == "name":
            return self._read_name(char)
        if self._place == "arguments":
            return self._read_arguments(char)
        found = self._awaited.push(char)
        self.state = "broken" if self._awaited.broken else self.state
        if found is not None:
            self._pass(found)
        return []

    def meet(self, marker: Marker) -> list[CallEvent]:
        if self._place == "name" and marker == self._form.middle:
            return self._begin_arguments(self._held)
        if self._place == "between" and marker in (self._form.begin, self._form.end, self._form.close):
            self._pass(marker.text)
        elif self._place == "name" and marker not in (self._form.begin, self._form.close):
            self._held += marker.text  # some families put more between the name and its arguments
        else:
            self.state = "broken"
        return []

    def _between(self) -> Awaited:
        form = self._form
        marks = [mark for mark in (form.begin, form.end, form.close) if mark is not None and mark.token is None]
        texts = [mark.text.strip() for mark in marks] + ([form.after.strip()] if form.after else [])
        return Awaited(texts, WHITESPACE + "}")

    def _pass(self, text: str) -> None:
        form = self._form
        if form.close is not None and text == form.close.text.strip():
            self.state = "done"
        elif form.begin is not None and text == form.begin.text.strip():
            self._place, self._held = "name", ""
        else:
            self._awaited = self._between()

    def _read_name(self, char: str) -> list[CallEvent]:
        middle = self._form.middle
        self._held += char
        if middle.token is None and self._held.endswith(middle.text.rstrip() or middle.text):
            return self._begin_arguments(self._held.removesuffix(middle.text.rstrip() or middle.text))
        return []

    def _begin_arguments(self, head: str) -> list[CallEvent]:
        self._place, self._arguments = "arguments", ArgumentsReader()
        return [Started(self._form.name_of(head))]

    def _read_arguments(self, char: str) -> list[CallEvent]:
        piece = self._arguments.push(char)
        events: list[CallEvent] = [Arguments(piece)] if piece else []
        if self._arguments.broken:
            self.state = "broken"
        elif self._arguments.done:
            events.append(Ended())
            self._place, self._awaited = "between", self._between()
        return events
