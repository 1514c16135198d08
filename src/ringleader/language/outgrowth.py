"""Patterns that outgrow the grammar engine in the middle of an answer, found before the answer begins.

The engine builds a pattern's automaton as a text needs it, under limits of each step: what breaks them shows only at
some text. So texts are tried, made of the pattern's own characters; what is refused comes with one that breaks it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from ringleader.language.patterns import ecma
from ringleader.language.recursion import NOT_SCHEMAS, children
from ringleader.language.schema import WRITTEN, bytes_view, lark_of
from ringleader.values import Json, Tool

# The trial on single bytes costs some milliseconds. Its steps have a fortieth of the engine's own fuel: whatever
# broke the real limits within 100 characters broke these sooner, and only what breaks these is tried in earnest.
SCREEN_FUEL = 5_000
SCREEN_BYTES = 160
# In earnest: the model's own tokens, the engine's own limits. Some hundred milliseconds, once for each pattern.
TRIAL_BYTES = 160
# Of one request: a stranger's patterns cost seconds at most.
SCREENS_MAX = 256
TRIALS_MAX = 2
SPREADS = 2
KEPT_MAX = 512
STRING_LIMITS = ("pattern", "minLength", "maxLength")
ADVICE = "Make it simpler: smaller repetitions, none inside another, fewer wildcards."
CODE = "grammar_too_complex"
_LEXEMES = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/')  # of a Lark grammar


@dataclass(frozen=True, slots=True)
class Outgrown:
    """A pattern, and a begin of a text after which the engine gives up on it."""

    pattern: str
    text: str

    def __str__(self) -> str:
        shown = self.pattern if len(self.pattern) <= 100 else self.pattern[:97] + "..."
        after = f"after a text like {self.text[-24:]!r}" if self.text else "before any text"
        return f"{shown!r} outgrows what can be enforced, {after}. {ADVICE}"


class Probe:
    """Tries the patterns of one request with one model's vocabulary, under a budget: what is beyond it is found
    at the text that breaks it."""

    def __init__(self, view: LLTokenizer) -> None:
        self._view = view
        self._screens, self._trials = SCREENS_MAX, TRIALS_MAX

    def schema(self, schema: Mapping[str, Json], *, translated: bool = False) -> Outgrown | None:
        """The first of a schema's patterns that some text was found to break. `translated`: they are the engine's."""
        for pattern, grammar in _strings(schema, translated):
            if (text := self._breaks(grammar, pattern, '"')) is not None:
                return Outgrown(pattern, text)
        return None

    def raw(self, tool: Tool) -> Outgrown | None:
        """The same of the Lark grammar that a custom tool's input follows."""
        assert tool.grammar is not None
        grammar = json.dumps({"grammars": [{"lark_grammar": tool.grammar.definition}]})
        text = self._breaks(grammar, "".join(_LEXEMES.findall(tool.grammar.definition)), "")
        return None if text is None else Outgrown(tool.grammar.definition, text)

    def _breaks(self, grammar: str, pattern: str, begin: str) -> str | None:
        self._screens -= 1
        if self._screens < 0 or (spread := _suspicion(grammar, pattern, begin)) is None:
            return None
        self._trials -= 1
        return _breaking(grammar, pattern, begin, spread, self._view) if self._trials >= 0 else None


def unbearable(schema: Mapping[str, Json], *, translated: bool = False) -> Outgrown | None:
    """The first of a schema's patterns that the engine gives up on before any text. For a schema that was refused:
    it takes up to a second where there is one."""
    return next((Outgrown(pattern, "") for pattern, grammar in _strings(schema, translated) if _is_lost(grammar)), None)


@lru_cache(maxsize=KEPT_MAX)
def _is_lost(grammar: str) -> bool:
    matcher = LLMatcher(bytes_view(), grammar, log_level=0)
    compiles = not matcher.is_error()
    matcher.consume_tokens(matcher.compute_ff_tokens())
    matcher.compute_bitmask()
    return compiles and bool(matcher.is_error())


def _strings(schema: Mapping[str, Json], translated: bool) -> Iterator[tuple[str, str]]:
    """Each pattern, and the grammar of a string of it."""
    for limits in islice(dict.fromkeys(_patterns(schema)), SCREENS_MAX + 1):
        node = json.loads(limits)
        pattern = node["pattern"]
        string = {"x-guidance": WRITTEN, "type": "string", **node, "pattern": pattern if translated else ecma(pattern)}
        yield pattern, lark_of(json.dumps(string))


def has_patterns(schema: Mapping[str, Json]) -> bool:
    """Whether anything in the schema may outgrow the engine at some text."""
    return next(_patterns(schema), None) is not None


def _patterns(schema: Json) -> Iterator[str]:
    """Each pattern with the lengths beside it, as JSON; those of keys too."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            waiting.extend(children(node))
            continue
        if isinstance(node.get("pattern"), str):
            yield json.dumps({key: node[key] for key in STRING_LIMITS if key in node})
        if isinstance(keys := node.get("patternProperties"), Mapping):
            yield from (json.dumps({"pattern": key}) for key in keys)
        waiting.extend(value for key, value in node.items() if key not in NOT_SCHEMAS)


@lru_cache(maxsize=KEPT_MAX)
def _suspicion(grammar: str, pattern: str, begin: str) -> int | None:
    """The `spread` of a text that broke the pattern on little fuel, or None where none was found."""
    if LLMatcher(bytes_view(), grammar, log_level=0).is_error():
        return None  # it does not compile: it stands in no grammar
    for spread in range(SPREADS):
        _, broke = _walk(grammar, pattern, begin, spread, SCREEN_BYTES, LLParserLimits(step_lexer_fuel=SCREEN_FUEL))
        if broke:
            return spread
    return None


@lru_cache(maxsize=KEPT_MAX)
def _breaking(grammar: str, pattern: str, begin: str, spread: int, view: LLTokenizer) -> str | None:
    """A text that breaks the pattern on this vocabulary, or None where none was found."""
    for each in range(spread, SPREADS):
        text, broke = _walk(grammar, pattern, begin, each, TRIAL_BYTES, LLParserLimits())
        reached = text if broke else _trial(grammar, begin, text, view)
        if reached is not None:
            return reached.decode(errors="replace")
    return None


def _walk(
    grammar: str, pattern: str, begin: str, spread: int, bytes_max: int, limits: LLParserLimits
) -> tuple[bytes, bool]:
    """A text that follows the grammar as far as it goes, and whether it broke there.

    It mixes the pattern's own characters as a fixed generator says, and `spread` more bytes that are legal.
    """
    matcher = LLMatcher(bytes_view(), grammar, log_level=0, limits=limits)
    matcher.consume_tokens(list(begin.encode()))
    own = sorted({*pattern.encode()} & {*b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,;:.-_/@="})
    text, state = b"", 1
    while len(text) < bytes_max and not matcher.is_stopped():
        mask = matcher.compute_bitmask()
        if matcher.is_error():
            return text, True
        legal = [byte for byte in (*own, *b"a 0"[:spread]) if _is_legal(mask, byte)]
        legal = legal or [byte for byte in range(256) if byte != 0x22 and _is_legal(mask, byte)]
        if not legal:
            break
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        byte = legal[(state >> 16) % len(legal)]
        matcher.consume_token(byte)
        text += bytes([byte])
    return text, bool(matcher.is_error())


def _is_legal(mask: bytes, byte: int) -> bool:
    return bool(mask[byte >> 3] >> (byte & 7) & 1)


def _trial(grammar: str, begin: str, text: bytes, view: LLTokenizer) -> bytes | None:
    """How much of `text` a model may write before the engine gives up; None when it bears all of it."""
    matcher = LLMatcher(view, grammar, log_level=0)
    matcher.consume_tokens(view.greedy_tokenize(begin))
    for n in range(len(text)):
        matcher.compute_bitmask()
        if matcher.is_error():
            return text[:n]
        matcher.consume_tokens(view.greedy_tokenize(chr(text[n])))
        if matcher.is_stopped():
            break
    return text if matcher.is_error() else None
