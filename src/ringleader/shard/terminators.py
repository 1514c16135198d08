"""Reads from a grammar's text how its raw strings end, such as "</parameter>" after any text.

Inside such a string a mask tells nothing (all tokens are legal until the last character of the end), so what
closes it can only be known from the grammar itself. Takes more than is needed: each is tried before it is believed.
"""

from __future__ import annotations

import json
import re
from typing import Any

TERMINATORS_MAX = 32  # in one grammar; families have one to four, each parameter repeats the same ones
LENGTH_MAX = 64  # characters; longer literals are whole pieces of calls, not ends of strings

_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<![\w"])/(?:[^/\\\n]|\\.)+/')
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def terminators(grammar: str) -> tuple[str, ...]:
    """Texts that may end a raw string of `grammar` (lark, or llguidance's JSON around it), the likeliest first."""
    found: dict[str, None] = {}
    quoted: dict[str, None] = {}
    for part in grammar_parts(grammar):
        for piece in _PIECES.findall(str(part.get("lark_grammar", ""))):
            if piece.startswith("/"):
                found[_literal_end(piece[1:-1])] = None
            elif "</" in piece or "|>" in piece:
                quoted[_unquoted(piece)] = None
    useful = [text for text in {**found, **quoted} if 0 < len(text) <= LENGTH_MAX]
    return tuple(useful[:TERMINATORS_MAX])


def grammar_parts(grammar: str) -> list[dict[str, Any]]:
    """What is handed to the engine, as its list of grammars: lark alone is a list of one."""
    try:
        parsed = json.loads(grammar)
    except ValueError:
        return [{"lark_grammar": grammar}]
    parts = parsed.get("grammars", []) if isinstance(parsed, dict) else []
    return [each for each in parts if isinstance(each, dict)]


def _unquoted(piece: str) -> str:
    try:
        return str(json.loads(piece))
    except ValueError:
        return ""


def _literal_end(regex: str) -> str:
    """The characters after the last thing in `regex` that is not a plain character; all of it is no end."""
    run: list[str] = []
    position, whole = 0, True
    while position < len(regex):
        char = regex[position]
        escaped = char == "\\"
        if escaped:
            position += 1
            char = regex[position : position + 1]
        position += 1
        names_a_class = escaped and char.isalnum() and char not in _PLAIN_ESCAPES
        if names_a_class or (not escaped and char in "()[]{}*+?.|^$"):
            run, whole = [], False
        else:
            run.append(_PLAIN_ESCAPES[char] if escaped and char in _PLAIN_ESCAPES else char)
    return "" if whole else "".join(run)
