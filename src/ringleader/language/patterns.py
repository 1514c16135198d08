"""Regular expressions of JSON schema as the grammar engine must be given them: ECMA's, and exact formats.

The engine reads patterns by Rust's rules, and its own formats know neither the days of a month nor which minutes
may have a leap second. Formats stand here as whole expressions, also for values that are written without quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ringleader.values import Json

# ECMA's \s is the space separators, the line ends and the byte order mark; Rust's has another control, and no mark.
_SPACES = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_ECMA = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]"}  # both may stand inside a class

# A whole escape, a repetition, or one character. A pair of surrogates is one character in both spellings.
_TOKEN = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\c[A-Za-z]|\\[ux]\{[0-9a-fA-F]+\}|\\[pP]\{[^}]*\}"
    r"|\\.|\{[0-9]+(?:,[0-9]*)?\}|.",
    re.DOTALL,
)
_SETS = re.compile(r"\\[dDwWsSpP]")  # escapes that are many characters, and so no end of a range
_OPERATORS = "[&~|"  # in a class: characters to ECMA, operators or nested classes to others


_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"  # leap seconds, which hang on the offset, are left out
_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-]{_CLOCK})"
_SPAN = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_HEX = "[0-9A-Fa-f]"
_PATH = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%{_HEX}{{2}})"


def _ipv6() -> str:
    group, ways = f"{_HEX}{{1,4}}", []
    last = f"(?:{group}:{group}|{_IPV4})"
    ways.append(f"(?:{group}:){{6}}{last}")
    for before in range(6):
        left = f"(?:(?:{group}:){{0,{before - 1}}}{group})?" if before else ""
        ways.append(f"{left}::(?:{group}:){{{5 - before}}}{last}")
    ways += [f"(?:(?:{group}:){{0,5}}{group})?::{group}", f"(?:(?:{group}:){{0,6}}{group})?::"]
    return f"(?:{'|'.join(ways)})"


# What the engine knows beside these it enforces by itself, in JSON alone.
FORMATS: Mapping[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}[Tt]{_TIME}",
    "duration": rf"P(?:[0-9]+W|{_DAYS}(?:{_SPAN})?|{_SPAN})",
    "email": rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*",
    "hostname": rf"{_LABEL}(?:\.{_LABEL})*",
    "ipv4": _IPV4,
    "ipv6": _ipv6(),
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "uri": rf"[A-Za-z][A-Za-z0-9+.-]*:(?://(?:[A-Za-z0-9._~-]+@)?{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?(?:/{_PATH}*)*"
    rf"|{_PATH}+(?:/{_PATH}*)*)(?:\?(?:{_PATH}|[/?])*)?(?:#(?:{_PATH}|[/?])*)?",
}
EXACT = ("date", "time", "date-time")  # where ours says more than the engine's own


def ecma(pattern: str) -> str:
    """`pattern`, which is JSON schema's language's, in the engine's."""
    return "".join(_ECMA.get(token, token) for token in _portable(pattern))


def portable(pattern: str) -> str:
    """`pattern` as any engine reads it, but for what white space is."""
    return "".join(_portable(pattern))


def _portable(pattern: str) -> Iterator[str]:
    """The tokens, with those that only ECMA reads so spelled as others read them."""
    tokens = iter(_TOKEN.findall(pattern))
    for token in tokens:
        if token == "[":
            yield from _class_of(tokens)
        else:
            yield r"\{" if token == "{" else _escape(token)


def _class_of(tokens: Iterator[str]) -> Iterator[str]:
    """A class from its bracket on, with all that ECMA takes for a plain character marked as one."""
    inner: list[str] = []
    negated = ""
    for token in tokens:
        if token == "^" and not inner and not negated:
            negated = token
        elif token == "]":
            break
        else:
            inner.append(token)
    else:  # it has no end: the engine says so
        yield f"[{negated}{''.join(inner)}"
        return
    if not inner:  # any character, or none at all
        yield from ("[" if negated else "[^", r"\s", r"\S", "]")
        return
    yield f"[{negated}"
    at = 0
    while at < len(inner):
        low = inner[at]
        if inner[at + 1 : at + 2] == ["-"] and at + 2 < len(inner) and not any(map(_SETS.match, (low, inner[at + 2]))):
            yield from (_member(low), "-", _member(inner[at + 2]))
            at += 3
        else:
            yield _member(low)
            at += 1
    yield "]"


def _member(token: str) -> str:
    """One character, or one set of them, of a class."""
    if token == r"\b":
        return r"\x08"
    return f"\\{token}" if token in ("-", "^", *_OPERATORS) else _escape(token)


def _escape(token: str) -> str:
    if token.startswith(r"\c") and len(token) == 3:
        return rf"\x{ord(token[2]) & 31:02x}"
    if re.fullmatch(r"(?:\\u[0-9a-fA-F]{4}){2}", token):
        return str(json.loads(f'"{token}"'))
    return r"\x00" if token == r"\0" else token


def exactly(node: Mapping[str, Json]) -> dict[str, Json]:
    """What to put in place of a schema's own `pattern` and `patternProperties`, or beside its `format`."""
    changed: dict[str, Json] = {}
    pattern, keys, format_ = node.get("pattern"), node.get("patternProperties"), node.get("format")
    if isinstance(pattern, str):
        changed["pattern"] = ecma(pattern)
    elif pattern is None and format_ in EXACT:
        changed["pattern"] = f"^{FORMATS[format_]}$"
    if isinstance(keys, Mapping):
        changed["patternProperties"] = {ecma(key): value for key, value in keys.items()}
    return changed
