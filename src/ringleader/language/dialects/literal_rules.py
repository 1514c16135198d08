"""Grammar of arguments that are neither JSON nor bare text: a language's own literals, spelled as the family does.

What a schema composes in ways that have no plain spelling is written as JSON instead, which the reader takes too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import CallRule, Marker
from ringleader.language.dialects.lexemes import ANYTHING, literal, until
from ringleader.language.dialects.typed_schema import STEPS_MAX, resolved, shapes, strings_of, type_of, types
from ringleader.language.dialects.typed_values import regexes, rooted
from ringleader.language.recursion import listed
from ringleader.language.schema import grammar_text
from ringleader.values import Json

NOTES = {"title", "description", "default", "examples", "deprecated", "nullable", "$comment", "$schema", "$id"}
DEFINITIONS = {"$defs", "definitions"}
COMPLEX = {"allOf", "patternProperties", "minProperties", "maxProperties", "prefixItems"}
BRANCHES = ("anyOf", "oneOf")
NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
LENGTHS, TEXTUAL = ("minLength", "maxLength"), ("pattern", "format")
BARE_KEY = re.compile(r"[^\s\"'`=:,(){}\[\]<>|\\]+")
ANY_KEY = "/[A-Za-z_][A-Za-z0-9_.\\-]{0,63}/"  # bounded, so that no model loops in it


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a family writes values. `quote` stands around raw strings; None: strings as Python and JSON have them.

    `assign` is between an argument's name and its value, `colon` between a key and a value further inside.
    `words` are the spellings of true, false and null. `ordered`: keys in the order of the alphabet, not as declared.
    """

    quote: Marker | None
    assign: str
    colon: str
    comma: str
    words: Mapping[bool | None, tuple[str, ...]]
    bare_keys: bool
    ordered: bool = False


class LiteralRules:
    """Makes the lark rules of one call's arguments; `lines` are all of them. `rule` begins the names of all."""

    def __init__(self, rule: str, call: CallRule, spelling: Spelling) -> None:
        self.lines: list[str] = []
        self._rule = rule
        self._spelling = spelling
        self._root: Json = call.schema
        self._lenient = call.lenient
        self._made = 0
        self._references: dict[str, str] = {}
        self._any = ""
        ways = [self._arguments(shape.parameters) for shape in shapes(call.schema)]
        self.lines.append(f"{rule}: {' | '.join(ways)}")

    def _arguments(self, parameters: Sequence[tuple[str, Json, bool]]) -> str:
        return self._members([(self._argument(key), schema, needed, key) for key, schema, needed in parameters], True)

    def _argument(self, key: str) -> str:
        return json.dumps(key) if BARE_KEY.fullmatch(key) else self._text(key)

    def _members(self, members: Sequence[tuple[str, Json, bool, str]], outer: bool) -> str:
        """Members (how the key is written, schema, needed, key) in order, with commas between those that are there."""
        if self._spelling.ordered:
            members = sorted(members, key=lambda member: member[3].lower())
        name, comma = self._name(), json.dumps(self._spelling.comma)
        sign = json.dumps(self._spelling.assign if outer else self._spelling.colon)
        later, first = "", '""'
        for n, (key, schema, needed, _) in reversed(list(enumerate(members))):
            self.lines.append(f"{name}_{n}: {key} {sign} {self._value(schema)}")
            alone = f"{name}_{n} {later}"
            self.lines.append(f"{name}_first_{n}: {alone}{'' if needed else f' | {first}'}")
            first = f"{name}_first_{n}"
            optional = "" if needed else "?"
            self.lines.append(f"{name}_more_{n}: ({comma} {name}_{n}){optional} {later}")
            later = f"{name}_more_{n}"
        return first

    # ------------------------------------------------------------ values

    def _value(self, schema: Json, steps: int = STEPS_MAX) -> str:
        """A lark reference to the rule of one value."""
        if not isinstance(schema, Mapping) or not _said(schema):
            return self._anything()
        if steps == 0:
            return self._as_json(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if len(_said(schema)) == 1:
                return self._referred(reference, steps)
            schema = resolved(schema, self._root)
            if not isinstance(schema, Mapping):
                return self._anything()
        parts = listed(schema.get("allOf"))
        if len(parts) == 1 and len(_said(schema)) == 1:
            return self._value(parts[0], steps - 1)
        if any(key in schema for key in COMPLEX) or isinstance(schema.get("items"), list):
            return self._as_json(schema)
        return self._of(schema, steps)

    def _of(self, schema: Mapping[str, Json], steps: int) -> str:
        branches = [branch for key in BRANCHES for branch in listed(schema.get(key))]
        if branches:
            outer = _said(schema) - set(BRANCHES)
            if outer - {"type"} or all(key in schema for key in BRANCHES):
                return self._as_json(schema)
            kind = {"type": schema["type"]} if outer else {}
            kept = [branch for branch in branches if types(branch, self._root) & types(kind, self._root)]
            return self._either([self._value({**kind, **_mapping(branch)}, steps - 1) for branch in kept])
        kinds = types(schema, self._root)
        if "const" in schema or isinstance(schema.get("enum"), list):
            values = [schema["const"]] if "const" in schema else schema["enum"]
            return self._either([self._literal(value) for value in values if type_of(value) in kinds])
        return self._either([way for kind in sorted(kinds) for way in self._typed(kind, schema, kinds, steps)])

    def _typed(self, kind: str, schema: Mapping[str, Json], kinds: frozenset[str], steps: int) -> list[str]:
        if kind == "string":
            return [self._string(way) for way in strings_of(schema, self._root)]
        if kind == "boolean":
            return [*self._words(True), *self._words(False)]
        if kind == "null":
            return self._words(None)
        if kind == "array":
            return [self._list(schema, steps)]
        if kind == "object":
            return [self._object(schema, steps)]
        if kind == "integer" and "number" in kinds:
            return []
        return [self._ruled(f"%json {self._compact({'type': kind, **_of_keys(schema, NUMERIC)})}")]

    def _list(self, schema: Mapping[str, Json], steps: int) -> str:
        least, most = _count(schema.get("minItems")) or 0, _count(schema.get("maxItems"))
        if most == 0 or schema.get("items") is False:
            return self._ruled('"[" "]"')
        item, comma = self._value(schema.get("items", {}), steps - 1), json.dumps(self._spelling.comma)
        times = f"{{{max(0, least - 1)},{'' if most is None else most - 1}}}"
        more = "" if most == 1 else f"({comma} {item}){times}"
        return self._ruled(f'"[" ({item} {more}){"" if least else "?"} "]"')

    def _object(self, schema: Mapping[str, Json], steps: int) -> str:
        properties = schema.get("properties")
        named = dict(properties) if isinstance(properties, Mapping) else {}
        required = [name for name in listed(schema.get("required")) if isinstance(name, str)]
        members = {name: value for name, value in named.items() if value is not False}
        members |= {name: {} for name in required if name not in named}
        if members:
            # Keys beside the declared ones are left out, as models leave them out: the rest stays valid without.
            written = [(self._key(key), value, key in required, key) for key, value in members.items()]
            return self._ruled(f'"{{" {self._members(written, False)} "}}"')
        more = schema.get("additionalProperties", True)
        return self._ruled('"{" "}"') if more is False else self._map(self._value(more, steps - 1))

    def _map(self, value: str) -> str:
        colon, comma = json.dumps(self._spelling.colon), json.dumps(self._spelling.comma)
        key = ANY_KEY if self._spelling.bare_keys else self._string({})
        pair = self._ruled(f"{key} {colon} {value}")
        return self._ruled(f'"{{" ({pair} ({comma} {pair})*)? "}}"')

    def _anything(self) -> str:
        if not self._any:
            self._any = f"{self._rule}_any"
            number = self._ruled(f"%json {self._compact({'type': 'number'})}")
            words = [word for value in (True, False, None) for word in self._words(value)]
            listed_ = self._ruled(f'"[" ({self._any} ({json.dumps(self._spelling.comma)} {self._any})*)? "]"')
            ways = [self._string({}), number, *words, listed_, self._map(self._any)]
            self.lines.append(f"{self._any}: {' | '.join(ways)}")
        return self._any

    def _referred(self, reference: str, steps: int) -> str:
        if reference not in self._references:
            name = self._references[reference] = self._name()
            self.lines.append(f"{name}: {self._value(resolved({'$ref': reference}, self._root), steps - 1)}")
        return self._references[reference]

    def _as_json(self, schema: Mapping[str, Json]) -> str:
        return self._ruled(f"%json {rooted(schema, self._root, self._lenient)}")

    # ------------------------------------------------------------ spelling

    def _literal(self, value: Json) -> str:
        comma = json.dumps(self._spelling.comma)
        if isinstance(value, bool) or value is None:
            return self._either(self._words(value))
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            items = f" {comma} ".join(map(self._literal, value))
            return f'"[" {items} "]"'
        if isinstance(value, Mapping):
            colon = json.dumps(self._spelling.colon)
            pairs = [f"{self._key(key)} {colon} {self._literal(item)}" for key, item in value.items()]
            return f'"{{" {f" {comma} ".join(pairs)} "}}"'
        return json.dumps(json.dumps(value))

    def _words(self, value: bool | None) -> list[str]:
        return [json.dumps(word) for word in self._spelling.words[value]]

    def _key(self, key: str) -> str:
        return json.dumps(key) if self._spelling.bare_keys and BARE_KEY.fullmatch(key) else self._text(key)

    def _text(self, text: str) -> str:
        """One certain string."""
        quote = self._spelling.quote
        if quote is not None:
            return f"{quote.lark} {json.dumps(text)} {quote.lark}" if text else f"{quote.lark} {quote.lark}"
        ways = [json.dumps(json.dumps(text, ensure_ascii=False))]
        if json.dumps(text, ensure_ascii=False) == f'"{text}"' and "'" not in text:
            ways.append(json.dumps(f"'{text}'"))
        return f"({' | '.join(ways)})"

    def _string(self, way: Mapping[str, Json]) -> str:
        """Any string of one plain schema."""
        quote = self._spelling.quote
        values = [way["const"]] if "const" in way else way.get("enum")
        if isinstance(values, list):
            return self._either([self._text(value) for value in values if isinstance(value, str)])
        if quote is None:
            limits = {"type": "string", **_of_keys(way, (*LENGTHS, *TEXTUAL, "allOf"))}
            double = self._ruled(f"%json {self._compact(limits)}")
            if "allOf" in way:
                return double
            single = self._patterned(way) if any(key in way for key in TEXTUAL) else _single_quoted(way)
            return f"({double} | {single})" if single else double
        body, *more = regexes(way)
        ended = literal(quote.text if quote.lead is None else quote.lead)
        lexeme, lines = until(self._name(), quote, "".join(f" & /{regex}{ended}/" for regex in more), body)
        self.lines += lines
        return f"({quote.lark} {lexeme})"

    def _patterned(self, way: Mapping[str, Json]) -> str:
        """A string with a pattern in single quotes, without any escapes; "" where that cannot be told."""
        limits = regexes({key: way[key] for key in way if key != "format"})
        if "format" in way or regexes({"pattern": way["pattern"]}) == [ANYTHING]:
            return ""
        name = self._name().upper()
        also = "".join(f" & /'{regex}'/" for regex in limits)
        self.lines.append(f"{name}: /'[^'\\\\\\x00-\\x1f]*'/{also}")
        return name

    # ------------------------------------------------------------ rules

    def _name(self) -> str:
        self._made += 1
        return f"{self._rule}_v{self._made}"

    def _ruled(self, body: str) -> str:
        name = self._name()
        self.lines.append(f"{name}: {body}")
        return name

    def _either(self, ways: Sequence[str]) -> str:
        return ways[0] if len(ways) == 1 else f"({' | '.join(ways)})"

    def _compact(self, schema: Mapping[str, Json]) -> str:
        return grammar_text(schema, lenient=self._lenient)


def _single_quoted(way: Mapping[str, Json]) -> str:
    least, most = _count(way.get("minLength")) or 0, _count(way.get("maxLength"))
    times = f"{{{least},{'' if most is None else most}}}" if least or most is not None else "*"
    return f"/'([^'\\\\\\x00-\\x1f]|\\\\['\"\\\\nrtbf]){times}'/"


def _said(schema: Mapping[str, Json]) -> set[str]:
    """The keywords that limit a value."""
    return {key for key in schema if key not in NOTES and key not in DEFINITIONS and not key.startswith("x-")}


def _of_keys(schema: Mapping[str, Json], keys: Sequence[str]) -> dict[str, Json]:
    return {key: schema[key] for key in keys if key in schema}


def _mapping(schema: Json) -> Mapping[str, Json]:
    return schema if isinstance(schema, Mapping) else {}


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
