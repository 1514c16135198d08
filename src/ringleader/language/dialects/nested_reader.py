"""Reads calls whose values are tags in tags: an object's keys are tags, a list's items all have the same one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ringleader.language.dialects.dialect import Arguments, CallEvent, Ended, Marker, Started, State
from ringleader.language.dialects.markup import overlap
from ringleader.language.dialects.typed_schema import rooted_in, shapes, types
from ringleader.language.dialects.typed_values import ValueReader
from ringleader.values import Json

INVOKE = re.compile(r'<invoke\s+name="([^"]*)"\s*>')
BLOCK_END = "</tool_call>"
LOCAL = ("#",)


@dataclass(slots=True)
class _Element:
    """A tag that is open. What its value is shows at the first thing in it."""

    end: str
    schema: Json
    root: Json
    kind: Literal["unknown", "text", "object", "array"] = "unknown"
    children: int = 0
    value: ValueReader = field(init=False)

    def __post_init__(self) -> None:
        self.value = ValueReader(self.schema, self.root)

    @property
    def types(self) -> frozenset[str]:
        return types({} if self.schema is None else self.schema, self.root)

    @property
    def may_be_text(self) -> bool:
        """Whether what comes may be a raw text."""
        return self.kind == "text" or (self.kind == "unknown" and "string" in self.types)

    def child(self, name: str) -> Json:
        """The schema of what stands under this tag, or None where none is declared."""
        part = rooted_in(self.schema, self.root, LOCAL) if self.schema is not None else None
        if part is None:
            return None
        if self.kind == "array":
            return part.get("items")
        return next((schema for shape in shapes(part) for key, schema, _ in shape.parameters if key == name), None)


class NestedReader:
    """A `BlockReader`. `namespace` stands before each tag, `item` is the tag of a list's items."""

    def __init__(self, namespace: Marker, schemas: Mapping[str, Json], item: str) -> None:
        self.state: State = "open"
        self._namespace, self._schemas, self._item = namespace, schemas, item
        self._open: list[_Element] = []
        self._tag: str | None = None  # as much as there is of a tag
        self._held = ""  # text that may become the namespace, where that is plain text

    def push(self, char: str) -> list[CallEvent]:
        if self.state != "open":
            return []
        if self._tag is not None:
            self._tag += char
            return self._tagged() if char == ">" else []
        top = self._open[-1] if self._open else None
        ends = top.end if top is not None and top.may_be_text else ""  # nothing else ends a text
        plain = self._namespace.text + ends if self._namespace.token is None else ""
        self._held += char
        if plain and self._held.endswith(plain):
            rest, self._held = self._held.removesuffix(plain), ""
            events = self._text(rest) if rest else []
            self._tag = ends
            return [*events, *(self._tagged() if ends else [])]
        certain = len(self._held) - overlap(self._held, plain)
        text, self._held = self._held[:certain], self._held[certain:]
        return self._text(text) if text else []

    def meet(self, marker: Marker) -> list[CallEvent]:
        if self._tag is not None:
            self.state = "broken"
        self._tag = ""
        return []

    def _tagged(self) -> list[CallEvent]:
        tag, self._tag = self._tag or "", None
        if not self._open:
            return self._outside(tag)
        top = self._open[-1]
        if tag == top.end:
            return self._close(self._open.pop())
        if tag.startswith("</") or top.kind == "text":
            self.state = "broken"
            return []
        return self._begin(top, tag[1:-1])

    def _outside(self, tag: str) -> list[CallEvent]:
        if tag == BLOCK_END:
            self.state = "done"
        elif (found := INVOKE.fullmatch(tag)) is not None:
            root = self._schemas.get(found[1]) or {}
            self._open.append(_Element("</invoke>", root, root, "object"))
            return [Started(found[1])]
        else:
            self.state = "broken"
        return []

    def _begin(self, top: _Element, name: str) -> list[CallEvent]:
        if top.kind == "unknown":
            lists = "array" in top.types and (name == self._item or "object" not in top.types)
            top.kind = "array" if lists else "object"
        before = ", " if top.children else "[" if top.kind == "array" else "{"
        key = "" if top.kind == "array" else f"{json.dumps(name, ensure_ascii=False)}: "
        top.children += 1
        self._open.append(_Element(f"</{name}>", top.child(name), top.root))
        return [Arguments(before + key)]

    def _text(self, text: str) -> list[CallEvent]:
        top = self._open[-1] if self._open else None
        if top is not None and (text.strip() or top.may_be_text) and top.kind == "unknown":
            top.kind = "text"
        if top is not None and top.kind == "text":
            piece = top.value.push(text)
            return [Arguments(piece)] if piece else []
        if text.strip():
            self.state = "broken"
        return []

    def _close(self, done: _Element) -> list[CallEvent]:
        written: str | None
        if done.kind in {"object", "array"}:
            ends = "{}" if done.kind == "object" else "[]"
            written = ends[1] if done.children else ends
        elif done.kind == "unknown" and "string" not in done.types and done.types & {"object", "array"}:
            written = "{}" if "object" in done.types else "[]"
        else:
            written = done.value.end()
        if written is None:
            self.state = "broken"
            return []
        events: list[CallEvent] = [Arguments(written)] if written else []
        return events if self._open else [*events, Ended()]
