"""Calls with one piece of markup for each parameter: their grammar and their reader, for any family's spelling."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import Arguments, CallEvent, CallRule, Ended, Marker, Started, State
from ringleader.language.dialects.markup import Awaited
from ringleader.language.dialects.typed_schema import only, resolved, shapes, types
from ringleader.language.dialects.typed_values import ValueReader, value_rules
from ringleader.values import Json

KINDS_OF: Mapping[str, frozenset[str]] = {"number": frozenset({"number", "integer"})}


@dataclass(frozen=True, slots=True)
class Quoted:
    """A second spelling of strings, between `begin` and `end` (the `value_end` included). What is written without
    it matches the regex `bare`."""

    begin: Marker
    end: Marker
    bare: str


@dataclass(frozen=True, slots=True)
class TypedForm:
    """`call_begin` NAME `name_end` (`key_begin` KEY `key_end` VALUE `value_end`)* `call_end`, as the family writes it.

    A newline at a marker's edge is written by the grammar; the reader takes any whitespace there, but inside a
    value only a newline at the end of `key_end`, and all of `value_end`. `key_end_json` is for families that mark
    what is not raw text. `close` ends the block. With an empty `call_begin` the name comes at once, and with an
    empty `name_end` it ends with its line or where a key begins; `call_end` may be `close` itself. `empty` is text
    that a call without parameters may hold, and does where it can have none. `typed_ends` are for families that name
    each value's JSON type: a `key_end` for each. `spelled` is how they write a name or a key, `meant` its reverse.
    """

    call_begin: Marker
    name_end: Marker
    key_begin: Marker
    key_end: Marker
    value_end: Marker
    call_end: Marker
    close: Marker
    key_end_json: Marker | None = None
    empty: str = ""
    quoted: Quoted | None = None
    typed_ends: tuple[tuple[str, Marker], ...] = ()
    spelled: Callable[[str], str] = str
    meant: Callable[[str], str] = str

    def rules(self, rule: str, calls: Sequence[CallRule], *, begun: bool = False) -> str:
        """Lark: `rule` is one call, from `call_begin` (or, `begun`, from after it) to `call_end`."""
        begin = "" if begun else self.call_begin.lark
        lines = [f"{rule}: {' | '.join(f'{rule}_{n}' for n in range(len(calls)))}"]
        for n, call in enumerate(calls):
            head = f"{begin} {json.dumps(self.spelled(call.name))} {self.name_end.lark}"
            lines += [f"{rule}_{n}: {head} {rule}_{n}_body", self.body(f"{rule}_{n}_body", call)]
        return "\n".join(lines)

    def body(self, rule: str, call: CallRule) -> str:
        """Lark: `rule` is all of a call that comes after `name_end`."""
        lines: list[str] = []
        ways = shapes(call.schema)
        for k, shape in enumerate(ways):
            name = f"{rule}_{k}"
            values = [f"{name}_{i}{'' if needed else '?'}" for i, (_, _, needed) in enumerate(shape.parameters)]
            lines.append(f"{name}: {self._body(values)} {self.call_end.lark}")
            for i, (key, schema, _) in enumerate(shape.parameters):
                lines += self._parameter(f"{name}_{i}", key, schema, call)
        return "\n".join([f"{rule}: {' | '.join(f'{rule}_{k}' for k in range(len(ways)))}", *lines])

    def _body(self, values: Sequence[str]) -> str:
        body = " ".join(values)
        if not self.empty or not all(value.endswith("?") for value in values):
            return body
        return f"({json.dumps(self.empty)} | {body})" if values else json.dumps(self.empty)

    def _parameter(self, rule: str, key: str, schema: Json, call: CallRule) -> list[str]:
        head = f"{self.key_begin.lark} {json.dumps(self.spelled(key))}"
        if self.typed_ends:
            return self._named_types(rule, head, schema, call)
        values = value_rules(f"{rule}_value", schema, call.schema, self.value_end, lenient=call.lenient)
        if self.quoted is not None and "string" in types(schema, call.schema):
            return self._quotable(rule, head, schema, call, self.quoted)
        if self.key_end_json is None:
            return [f"{rule}: {head} {self.key_end.lark} {rule}_value", *values]
        ways = values[0].split(": ", 1)[1].split(" | ")
        raw = f"{rule}_value_text".lower()  # all other ways are JSON
        ends = [self.key_end if way.lower().startswith(raw) else self.key_end_json for way in ways]
        heads = [f"{head} {end.lark} {way}" for end, way in zip(ends, ways, strict=True)]
        return [f"{rule}: {' | '.join(heads)}", *values[1:]]

    def _named_types(self, rule: str, head: str, schema: Json, call: CallRule) -> list[str]:
        """A parameter whose markup names the type of its value: one way for each type that it may have."""
        found = types(schema, call.schema)
        ways: list[str] = []
        lines: list[str] = []
        for kind, end in self.typed_ends:
            if kinds := found & KINDS_OF.get(kind, frozenset({kind})):
                ways.append(f"{head} {end.lark} {rule}_{kind}")
                part = schema if found == kinds else only(schema, call.schema, kinds)
                lines += value_rules(f"{rule}_{kind}", part, call.schema, self.value_end, lenient=call.lenient)
        return [f"{rule}: {' | '.join(ways)}", *lines]

    def _quotable(self, rule: str, head: str, schema: Json, call: CallRule, quoted: Quoted) -> list[str]:
        """A parameter that may be a string: bare as far as that may be, else quoted."""
        text = only(schema, call.schema, frozenset({"string"}))
        bare = value_rules(f"{rule}_value", schema, call.schema, self.value_end, lenient=call.lenient, raw=quoted.bare)
        rest = value_rules(f"{rule}_quoted", text, call.schema, quoted.end, lenient=call.lenient)
        value = f"({rule}_value | {quoted.begin.lark} {rule}_quoted)"
        return [f"{rule}: {head} {self.key_end.lark} {value}", *bare, *rest]


class TypedReader:
    """A `BlockReader` of a `TypedForm`.

    between -call_begin-> name -name_end-> members -key_begin-> key -key_end-> value -value_end-> members
    between -close-> done              members -call_end-> between

    With a `name` it begins at the members of that call, whose name was told already.
    """

    def __init__(self, form: TypedForm, schemas: Mapping[str, Json], name: str = "") -> None:
        self.state: State = "open"
        self._form = form
        self._schemas = schemas
        self._place = "between" if form.call_begin.text else "name"
        self._held = ""  # of a name, a key, or the end of a value that may be its terminator
        self._name = name
        self._keys = 0
        self._value = ValueReader(None, {})
        self._newline = False  # a newline after the key's markup is still to be dropped
        self._end = form.value_end
        self._may_quote = False  # nothing of the value was read yet but what may be the begin of a quoted one
        self._awaited = self._between()
        if name:
            self._place, self._awaited = "members", self._members()

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._place == "value":
            return self._read_value(char)
        if self._place in {"name", "key"}:
            return self._read_name(char)
        found = self._awaited.push(char)
        if self._awaited.broken:
            self.state = "broken"
        return [] if found is None else self._found(found)

    def meet(self, marker: Marker) -> list[CallEvent]:
        if self._place == "value":
            if marker.token == _first_token(self._end):
                return self._end_value(self._held.removesuffix(self._end.lead or ""), _after(self._end, marker))
            self.state = "broken"
            return []
        events: list[CallEvent] = []
        for char in marker.text:
            events += self.push(char)
        return events

    def _between(self) -> Awaited:
        return Awaited([self._form.call_begin.text.strip(), self._form.close.text.strip()])

    def _members(self) -> Awaited:
        return Awaited([self._form.key_begin.text.strip(), self._form.call_end.text.strip()])

    def _found(self, text: str) -> list[CallEvent]:
        form = self._form
        if self._place == "value end":
            self._place, self._awaited = "members", self._members()
        elif self._place == "between" and text == form.close.text.strip():
            self.state = "done"
        elif self._place == "between":
            self._place, self._held = "name", ""
        elif text == form.key_begin.text.strip():
            self._place, self._held = "key", ""
        else:
            self._place, self._awaited = "between", self._between()
            self.state = "done" if form.call_end == form.close else "open"
            return [Arguments("}" if self._keys else "{}"), Ended()]
        return []

    def _read_name(self, char: str) -> list[CallEvent]:
        self._held += char
        return self._read_key() if self._place == "key" else self._read_tool()

    def _read_tool(self) -> list[CallEvent]:
        form = self._form
        end = form.name_end.text.strip()
        ends = [end] if end else ["\n", form.key_begin.text.strip(), form.call_end.text.strip()]
        found = next((text for text in ends if self._held.endswith(text)), None)
        name = form.meant(self._held.removesuffix(found or "").strip())
        if found is None or not name:
            return []
        self._name, self._place, self._keys, self._awaited = name, "members", 0, self._members()
        return [Started(name), *(self._found(found) if found not in (end, "\n") else [])]

    def _read_key(self) -> list[CallEvent]:
        form = self._form
        ends: list[tuple[str | None, Marker]] = [(None if form.key_end_json is None else "string", form.key_end)]
        ends += [("json", form.key_end_json)] if form.key_end_json is not None else []
        for kind, end in form.typed_ends or ends:
            if _squeezed(self._held).endswith(_squeezed(end.text)):
                return self._begin_value(form.meant(self._held.split(end.text.split()[0], 1)[0].strip()), kind)
        return []

    def _begin_value(self, key: str, kind: str | None) -> list[CallEvent]:
        root = self._schemas.get(self._name) or {}
        self._value = ValueReader(_property(root, key), root, kind)
        self._place, self._held, self._newline = "value", "", self._form.key_end.text.endswith("\n")
        self._end, self._may_quote = self._form.value_end, self._form.quoted is not None
        self._keys += 1
        opening = "{" if self._keys == 1 else ", "
        return [Arguments(f"{opening}{json.dumps(key, ensure_ascii=False)}: ")]

    def _read_value(self, char: str) -> list[CallEvent]:
        if self._newline:
            self._newline = False
            if char == "\n":
                self._held = ""
                return []
        self._held += char
        if self._may_quote and self._quotes():
            return []
        end = self._end
        if end.lead is None and self._held.endswith(end.text):
            return self._end_value(self._held.removesuffix(end.text))
        keep = _begun(self._held, end.text if end.lead is None else end.lead)
        piece = self._value.push(self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]
        return [Arguments(piece)] if piece else []

    def _quotes(self) -> bool:
        """Whether what is held is the begin of a quoted string, or may become it."""
        assert self._form.quoted is not None
        begin = self._form.quoted.begin.text
        self._may_quote = begin.startswith(self._held) and self._held != begin
        if self._held == begin:
            self._held, self._end = "", self._form.quoted.end
            return True
        return self._may_quote

    def _end_value(self, rest: str, tail: str = "") -> list[CallEvent]:
        """The value is whole but for `rest`. `tail` is what is still to come of the markup that ends it."""
        piece = self._value.push(rest) if rest else ""
        last = self._value.end()
        self._place, self._awaited, self._held = "members", self._members(), ""
        if tail:
            self._place, self._awaited = "value end", Awaited([tail])
        if last is None:
            self.state = "broken"
            return []
        return [Arguments(piece + last)] if piece + last else []


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _first_token(end: Marker) -> int | None:
    return next((piece for piece in end.pieces if isinstance(piece, int)), None)


def _after(end: Marker, token: Marker) -> str:
    """The text of `end` that follows its first special token, without the whitespace around it."""
    return end.text.removeprefix(end.lead or "").removeprefix(token.text).strip()


def _begun(text: str, awaited: str) -> int:
    """How much of the end of `text` may be the begin of `awaited`, the whole of it included."""
    return next((n for n in range(min(len(awaited), len(text)), 0, -1) if text.endswith(awaited[:n])), 0)


def _property(root: Json, key: str) -> Json:
    """The schema of a parameter, or None where the tool declares none of that name."""
    for shape in shapes(root):
        for name, schema, _ in shape.parameters:
            if name == key:
                return schema
    extra = resolved(root, root)
    more = extra.get("additionalProperties") if isinstance(extra, Mapping) else None
    return more if isinstance(more, Mapping) and types(more, root) else None
