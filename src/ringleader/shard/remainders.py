"""Reads from a grammar's text what its strings may still need to be whole: ".pdf" for `.*\\.pdf$`, and "pdf", and "df".

Inside such a string no mask tells which of a thousand legal tokens leads to its end. Each place of a string's form
gives one remainder, the fewest characters from there; from wherever a string has come to, one of them is the shortest.
Takes more than is needed: each is tried before it is believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringleader.shard.regexes import Automaton, Chars, automaton, both, of_length
from ringleader.shard.terminators import grammar_parts

FORMS_MAX = 64  # kinds of strings in one grammar; agents' largest tool sets have some ten
REMAINDERS_MAX = 512  # of one form
LENGTH_MAX = 1024  # characters; from longer ones on, a string may be cut

# The formats that the engine knows by itself (all others stand in a grammar as expressions): how they may end.
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"
_HOST = "[a-zA-Z0-9-]*[a-zA-Z0-9](\\.[a-zA-Z0-9-]*[a-zA-Z0-9])*"
_GROUP = "[0-9a-fA-F]{1,4}"
_IPV6 = rf"({_GROUP}:){{7}}{_GROUP}|({_GROUP}(:{_GROUP}){{0,6}})?::({_GROUP}(:{_GROUP}){{0,6}})?"
_ATOM = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
_SPAN = "(T([0-9]+H)?([0-9]+M)?[0-9]+S|T([0-9]+H)?[0-9]+M|T[0-9]+H)"
_DATE, _TIME = (
    "[0-9]{4}-[01][0-9]-[0-3][0-9]",
    r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([zZ]|[+-][0-2][0-9]:[0-5][0-9])",
)
FORMATS: Mapping[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[tT]{_TIME}",
    "duration": f"P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?{_SPAN}?)",
    "email": rf"{_ATOM}(\.{_ATOM})*@({_HOST}|\[{_IPV4}\])",
    "hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": rf"[a-zA-Z][a-zA-Z0-9+.-]*:(//(\[({_IPV6}|v[0-9a-fA-F]+\.[a-zA-Z0-9]+)\])?)?(%[0-9a-fA-F]{{2}}|[!-~])*",
}
_PIECES = re.compile(
    r'"(?:[^"\\\n]|\\.)*"i?|(?P<not>~)?(?<![\w"])/(?P<regex>(?:[^/\\\n]|\\.)+)/(?P<flags>[a-z]*)|[&|:\n]'
)
_SCHEMA = re.compile(r"%json\s*")


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of string: the characters of its remainders, each as the classes of them, the shortest first.

    `quoted`: it stands between the quotes of JSON, and what follows it is its quote.
    """

    remainders: tuple[tuple[Chars, ...], ...]
    quoted: bool


def forms(grammar: str) -> tuple[Form, ...]:
    """The forms of the strings of `grammar` (lark, or llguidance's JSON around it)."""
    found: dict[Form, None] = {}
    for lark in _larks(grammar):
        plain, schemas = _parted(lark)
        for each, quoted in [(each, True) for each in schemas] + [(plain, False)]:
            for made in _of_json(each) if quoted else _of_terminals(each):
                if made is not None and len(found) < FORMS_MAX and (rests := _remainders(made)):
                    found[Form(rests, quoted)] = None
    return tuple(found)


def _larks(grammar: str) -> list[str]:
    """The lark texts of `grammar`; a JSON schema that stands for itself is written as lark has it."""
    parts = grammar_parts(grammar)
    schemas = [f"%json {json.dumps(each['json_schema'])}" for each in parts if "json_schema" in each]
    return [str(each["lark_grammar"]) for each in parts if "lark_grammar" in each] + schemas


def _parted(lark: str) -> tuple[str, list[Any]]:
    """The grammar without the schemas in it, and those."""
    decoder, schemas, plain, at = json.JSONDecoder(), [], "", 0
    while (found := _SCHEMA.search(lark, at)) is not None:
        plain += lark[at : found.start()]
        try:
            schema, at = decoder.raw_decode(lark, found.end())
            schemas.append(schema)
        except ValueError:
            at = found.end()
    return plain + lark[at:], schemas


# ---------------------------------------------------------------- schemas


def _of_json(schema: Any) -> Iterator[Automaton | None]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            waiting += node.values()
            yield _met(_limits(node))
            keys = node.get("patternProperties")
            yield from (_met([key]) for key in (keys if isinstance(keys, Mapping) else ()))
        elif isinstance(node, list):
            waiting += node


def _limits(node: Mapping[str, Any], outer: Sequence[Any] = ()) -> list[Any]:
    """What a string of this schema must meet: patterns, names of formats as mappings, lengths as pairs."""
    found = list(outer)
    if isinstance(pattern := node.get("pattern"), str):
        found.append(pattern)
    if isinstance(form := node.get("format"), str) and form in FORMATS:  # a mapping: of a property of that name
        found.append({"format": form})
    least, most = node.get("minLength"), node.get("maxLength")
    if isinstance(least, int) or (isinstance(most, int) and found):
        found.append((least if isinstance(least, int) else 0, most if isinstance(most, int) else None))
    for part in node.get("allOf") or () if isinstance(node.get("allOf"), list) else ():
        found = _limits(part, found) if isinstance(part, Mapping) else found
    return found


def _met(limits: Sequence[Any]) -> Automaton | None:
    """All of the limits at once; what is too large or not understood is left out, the first one excepted."""
    whole: Automaton | None = None
    for limit in limits:
        try:
            part = _part(limit)
            whole = part if whole is None else both(whole, part)
        except ValueError:
            continue
    return whole


def _part(limit: Any) -> Automaton:
    if isinstance(limit, str):
        return automaton(limit, whole=False)
    return automaton(FORMATS[limit["format"]]) if isinstance(limit, Mapping) else of_length(*limit)


# ---------------------------------------------------------------- terminals of lark


def _of_terminals(lark: str) -> Iterator[Automaton | None]:
    """Expressions, those joined by `&` as one; what is excluded (`~`) is for the grammar itself to say."""
    parts: list[tuple[str, bool]] = []
    joined = False
    for piece in _PIECES.finditer(lark):
        regex = piece["regex"]
        if regex is None:
            joined = piece[0] == "&"
            continue
        if not joined:
            yield _joined(parts)
            parts = []
        joined = False
        if not piece["not"]:
            parts.append((regex, "i" in piece["flags"]))
    yield _joined(parts)


def _joined(parts: Sequence[tuple[str, bool]]) -> Automaton | None:
    whole: Automaton | None = None
    for regex, ignore_case in parts:
        try:
            part = automaton(regex, ignore_case=ignore_case)
            whole = part if whole is None else both(whole, part)
        except ValueError:
            continue
    return whole


# ---------------------------------------------------------------- remainders


def _remainders(form: Automaton) -> tuple[tuple[Chars, ...], ...]:
    """For each state, the shortest way to an accepting one. Ways of characters that are the same are one."""
    back: list[list[tuple[Chars, int]]] = [[] for _ in form.moves]
    for state, moves in enumerate(form.moves):
        for chars, to in moves:
            back[to].append((chars, state))
    rests: dict[int, tuple[Chars, ...]] = {state: () for state, ends in enumerate(form.accepting) if ends}
    order = list(rests)
    for state in order:  # grows while it is walked: breadth first
        if len(rests[state]) >= LENGTH_MAX:
            break
        for chars, before in back[state]:
            if before not in rests:
                rests[before] = (chars, *rests[state])
                order.append(before)
    distinct = dict.fromkeys(rests[state] for state in order if rests[state])
    return tuple(distinct)[:REMAINDERS_MAX]
