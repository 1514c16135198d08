"""Parameter values written as bare text: strings raw, everything else as JSON.

`value_rules` makes the grammar of one such value with what ends it; `ValueReader` turns the text back into
JSON, a character at a time, with the types that the schema names and never by guess.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from functools import lru_cache

from llguidance import LLMatcher

from ringleader.language.dialects.dialect import Marker
from ringleader.language.dialects.lexemes import ANYTHING, literal, until
from ringleader.language.dialects.typed_schema import only, strings_of, type_of, types, words_of
from ringleader.language.patterns import FORMATS
from ringleader.language.recursion import listed
from ringleader.language.schema import grammar_text
from ringleader.values import Json

# What a text begins with that is read as a value of this type where a string is allowed as well.
LOOKS: Mapping[str, str] = {
    "number": f"-?[0-9]{ANYTHING}",
    "integer": f"-?[0-9]{ANYTHING}",
    "array": f"\\[{ANYTHING}",
    "object": f"\\{{{ANYTHING}",
}
REGEXES_MAX = 512


# ---------------------------------------------------------------- grammar


def value_rules(rule: str, schema: Json, root: Json, end: Marker, *, lenient: bool = False, raw: str = "") -> list[str]:
    """Lark: `rule` is one value and the `end` after it. `root` is the schema that references point into; `raw` a
    regex that every string must match as a whole beside what its schema says."""
    kinds = types(schema, root)
    ways: list[str] = []
    lines: list[str] = []
    ended = literal(end.text if end.lead is None else end.lead)
    words = "|".join(words_of(schema, root)) if "string" in kinds else ""
    looks = "".join(f" & ~/{LOOKS[kind]}/" for kind in sorted(kinds & LOOKS.keys()))
    if words:  # lexemes of one and the same end: the lexer would not go back for a shorter one
        way, more = until(f"{rule}_word", end, "", f"({words})")
        ways.append(way)
        lines += more
        looks += f" & ~/({words}){ended}/"
    for n, string in enumerate(strings_of(schema, root) if "string" in kinds else ()):
        body, *more_regexes = regexes(string)
        limits = "".join(f" & /{regex}{ended}/" for regex in (*more_regexes, *([raw] if raw else [])))
        way, more = until(f"{rule}_text_{n}", end, looks + limits, body)
        ways.append(way)
        lines += more
    others = kinds - {"string", "boolean", "null"} if "string" in kinds else kinds
    if others:
        part = only(schema, root, others) if "string" in kinds else schema
        ways.append(f"{rule}_json {end.lark}")
        lines.append(f"{rule}_json: %json {rooted(part, root, lenient)}")
    return [f"{rule}: {' | '.join(ways)}", *lines]


def regexes(schema: Mapping[str, Json]) -> list[str]:
    """What a string's raw text must match, all of it, as far as that can be told."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return [f"({'|'.join(literal(value) for value in values if isinstance(value, str))})"]
    found: list[str] = []
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and (regex := _anchored(pattern)) and _compiles(regex):
        found.append(regex)
    form = schema.get("format")
    if isinstance(form, str) and form in FORMATS:
        found.append(FORMATS[form].replace("/", "\\/"))
    least, most = schema.get("minLength"), schema.get("maxLength")
    low = least if isinstance(least, int) and least > 0 else 0
    high = str(most) if isinstance(most, int) else ""
    if low or high:
        found.append(f"(?s:.{{{low},{high}}})")
    further = [regex for part in listed(schema.get("allOf")) for regex in regexes(part)]
    return [*found, *(regex for regex in further if regex != ANYTHING)] or [ANYTHING]


def _anchored(pattern: str) -> str:
    """A schema's pattern (found anywhere in the text) as a lark regex of the whole text."""
    ways = [_anchored_way(way) for way in _alternatives(pattern)]
    return ways[0] if len(ways) == 1 else f"({'|'.join(ways)})"


def _anchored_way(pattern: str) -> str:
    start = pattern.startswith("^")
    stop = pattern.endswith("$") and not pattern.endswith("\\$")
    inner = pattern[1 if start else 0 : -1 if stop else None].replace("\\/", "/").replace("/", "\\/")
    inner = inner.replace("\n", "\\n")
    return f"{'' if start else ANYTHING}({inner}){'' if stop else ANYTHING}"


def _alternatives(pattern: str) -> list[str]:
    """The pattern's parts between bars that stand in no group and no class; with `^a|b$` each has its own anchor."""
    ways, depth, in_class = [""], 0, False
    for piece in re.findall(r"\\.|.", pattern, flags=re.DOTALL):
        if in_class or piece == "[":
            in_class = piece != "]"
        depth += (not in_class and piece == "(") - (not in_class and piece == ")")
        if piece == "|" and depth == 0 and not in_class:
            ways.append("")
        else:
            ways[-1] += piece
    return ways


@lru_cache(maxsize=REGEXES_MAX)
def _compiles(regex: str) -> bool:
    return not LLMatcher.validate_grammar(str(LLMatcher.grammar_from_lark(f"start: /{regex}/")))


def rooted(schema: Json, root: Json, lenient: bool) -> str:
    """The text after `%json` of a part of `root` whose references still point right."""
    part = schema if isinstance(schema, Mapping) else {}
    if '"$ref"' in json.dumps(part):
        part = {**_moved(part), "$defs": {"root": _moved(root)}}
    return grammar_text(part, lenient=lenient)


def _moved(node: Json) -> Json:
    if isinstance(node, Mapping):
        copy = {key: _moved(value) for key, value in node.items()}
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            copy["$ref"] = "#/$defs/root" + reference[1:]
        return copy
    return [_moved(item) for item in node] if isinstance(node, list) else node


# ---------------------------------------------------------------- reading


class ValueReader:
    """Gives one value's JSON text in pieces that concatenate to it. `schema` None: the parameter is not known.

    A string streams, as soon as it is certain that it is one; lists and objects stream as they are written;
    all else comes when it is whole. `end` gives None for a value that can be no JSON after all.
    """

    def __init__(self, schema: Json, root: Json, kind: str | None = None) -> None:
        kinds = types({} if schema is None else schema, root)
        self._kinds = kinds if kind is None else frozenset({"string"}) if kind == "string" else kinds - {"string"}
        self._words = {w for way in strings_of(schema, root) for w in _words(way)} if schema is not None else set()
        self._text = ""
        self._mode = "string" if self._kinds == {"string"} else "undecided"
        self._given = 0

    def push(self, text: str) -> str:
        self._text += text
        if not self._text:
            return ""
        if self._mode == "undecided":
            self._mode = self._decide()
        if self._mode == "undecided" or self._mode == "whole":
            return ""
        fresh, self._given = self._text[self._given :], len(self._text)
        if self._mode == "json":
            return fresh
        return ('"' if fresh and len(fresh) == self._given else "") + json.dumps(fresh, ensure_ascii=False)[1:-1]

    def end(self) -> str | None:
        if self._mode == "string":
            return '"' if self._given else '""'
        if self._mode == "json":
            return "" if _decodes(self._text) else None
        return self._coerced()

    def _decide(self) -> str:
        """What the text so far is certain to be; "whole" waits for its end."""
        text = self._text.lstrip("[{ \t\r\n")
        if "string" not in self._kinds:
            opened = self._text.lstrip()[:1]
            if not opened:
                return "undecided"
            if opened not in "[{" or ("array" if opened == "[" else "object") not in self._kinds:
                return "whole"
            # Python's words and quotes are not streamed: they are first made JSON of.
            return "undecided" if not text else "whole" if text[0] in "'TFN" else "json"
        kinds = self._kinds & {"null", "boolean"}
        others = self._kinds - {"string", "null", "boolean"}
        words = [*(["null"] if "null" in kinds else []), *(["true", "false"] if "boolean" in kinds else [])]
        if any(word.startswith(self._text) for word in words):
            return "undecided"
        return "string" if not others or self._text[0] not in "-0123456789[{" else "whole"

    def _coerced(self) -> str:
        text = self._text
        if "string" in self._kinds and text in self._words:
            return _quoted(text)
        value = _json(text)
        if value is not _NONE and self._fits(value) and (text == text.strip() or "string" not in self._kinds):
            whole = isinstance(value, float) and value.is_integer() and "number" not in self._kinds
            return str(int(value)) if whole else text.strip()
        if "string" not in self._kinds and (spoken := _python(text)) is not _NONE and self._fits(spoken):
            return json.dumps(spoken, ensure_ascii=False)
        return _quoted(text)

    def _fits(self, value: Json) -> bool:
        kind = type_of(value)
        return (kind != "string" and kind in self._kinds) or (isinstance(value, str) and "string" not in self._kinds)


class _Nothing:
    """Marks the absence of a value, None being one."""


_NONE = _Nothing()


def _words(way: Mapping[str, Json]) -> list[str]:
    values = [way["const"]] if "const" in way else way.get("enum")
    return [word for word in values if isinstance(word, str)] if isinstance(values, list) else []


def _decodes(text: str) -> bool:
    return _json(text) is not _NONE


def _json(text: str) -> Json:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NONE


def _python(text: str) -> Json:
    """The value of a Python literal that JSON can hold."""
    words = {"true": True, "false": False, "null": None}
    try:
        value = words[text.strip()] if text.strip() in words else ast.literal_eval(text.strip())
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _NONE
    return value


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")
