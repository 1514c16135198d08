"""MiniMax M3's calls: one block of them, a tag named after each parameter, nested as deep as the value is.

A token of its own stands before each tag, so that strings are raw text without any escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Marker,
    Opens,
    Thinking,
    marker,
    several,
)
from ringleader.language.dialects.nested_reader import NestedReader
from ringleader.language.dialects.typed_schema import rooted_in, shapes, types
from ringleader.language.dialects.typed_values import value_rules
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

NAMESPACE = "]<]minimax[>["
ITEM = "item"
DEPTH_MAX = 8  # of tags in tags; what is deeper is JSON
NAMES = re.compile(r"[^<>/\s][^<>\s]*")  # keys that can be tags
LOCAL = ("#/$defs/", "#/definitions/")
NOTES = {"title", "description", "default", "examples", "$schema", "$defs", "definitions", "type"}
OBJECT = NOTES | {"properties", "required", "additionalProperties"}
ARRAY = NOTES | {"items", "minItems", "maxItems"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimaxM3(Dialect):
    """`<tool_call>`, for each call `<invoke name="f">` and `<a>VALUE</a>`, lists as `<item>VALUE</item>`; before each
    tag stands the namespace's token."""

    mark: Callable[[str], Marker]  # of a tag

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        lines = [
            f"calls: {self.opens[0].marker.lark} calls_rest",
            f'calls_rest: "\\n" call {several("call", "", least, most)} {self.mark("</tool_call>").lark}',
            f"call: {' | '.join(f'call_{n}' for n in range(len(calls)))}",
        ]
        end = f'{self.mark("</invoke>").lark} "\\n"'
        for n, call in enumerate(calls):
            ways = shapes(call.schema)
            heads = f"{self.mark(f'<invoke name={json.dumps(call.name)}>').lark}"
            lines.append(f"call_{n}: {heads} ({' | '.join(f'call_{n}_{k}' for k in range(len(ways)))})")
            for k, shape in enumerate(ways):
                lines += self._members(f"call_{n}_{k}", shape.parameters, end, call, DEPTH_MAX)
        return "\n".join(lines)

    def _members(
        self, rule: str, parameters: Sequence[tuple[str, Json, bool]], end: str, call: CallRule, depth: int
    ) -> list[str]:
        names = [f"{rule}_{i}{'' if needed else '?'}" for i, (_, _, needed) in enumerate(parameters)]
        lines = [f"{rule}: {' '.join(names)} {end}"]
        for i, (key, schema, _) in enumerate(parameters):
            lines += self._element(f"{rule}_{i}", key, schema, call, depth)
        return lines

    def _element(self, rule: str, key: str, schema: Json, call: CallRule, depth: int) -> list[str]:
        lines = [f"{rule}: {self.mark(f'<{key}>').lark} {rule}_v"]
        end, part = self.mark(f"</{key}>"), rooted_in(schema, call.schema, LOCAL)
        kinds = types(schema, call.schema)
        if depth and part is not None and kinds == {"object"} and _is_plain(part, OBJECT):
            (shape,) = shapes(part)
            if all(NAMES.fullmatch(name) for name, _, _ in shape.parameters):
                return [*lines, *self._members(f"{rule}_v", shape.parameters, end.lark, call, depth - 1)]
        if depth and part is not None and kinds == {"array"} and _is_plain(part, ARRAY) and "items" in part:
            least, most = part.get("minItems", 0), part.get("maxItems", "")
            if most == 0:
                return [*lines, f"{rule}_v: {end.lark}"]
            lines.append(f"{rule}_v: {rule}_i{{{least},{most}}} {end.lark}")
            return [*lines, *self._element(f"{rule}_i", ITEM, part["items"], call, depth - 1)]
        return [*lines, *value_rules(f"{rule}_v", schema, call.schema, end, lenient=call.lenient)]

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return NestedReader(self.markers[0], schemas, ITEM)


def _is_plain(schema: Mapping[str, Json], known: set[str]) -> bool:
    """Whether tags can say all that the schema does."""
    return set(schema) <= known and schema.get("additionalProperties", False) is False


def minimax_m3(tokenizer: Tokenizer) -> MinimaxM3:
    """The dialect for this vocabulary."""

    def mark(tag: str) -> Marker:
        return marker(tokenizer, NAMESPACE + tag)

    open_, close = marker(tokenizer, "<mm:think>"), marker(tokenizer, "</mm:think>")
    return MinimaxM3(
        name="minimax_m3",
        opens=(Opens(mark("<tool_call>")),),
        markers=(marker(tokenizer, NAMESPACE),),
        thinking=Thinking(open_, close, expected=True, declines=close.token is not None),
        mark=mark,
    )
