"""Reads a docstring into what it says of the function and of each argument, in Google's or Sphinx's form."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

_HEADING = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENTS = {"Args", "Arguments", "Parameters"}
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_PARAM = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r":[a-z]+\b[^:]*:")


@dataclass(frozen=True, slots=True)
class Docstring:
    """`text` is everything before the first section; `arguments` has one line for each argument described."""

    text: str
    arguments: dict[str, str]


def read_docstring(raw: str) -> Docstring:
    """The parts that a model should read; what a function returns and raises is for programmers."""
    lines = inspect.cleandoc(raw).splitlines()
    first = next((n for n, line in enumerate(lines) if _HEADING.match(line) or _FIELD.match(line)), len(lines))
    return Docstring(_paragraphs(lines[:first]), _google(lines[first:]) | _sphinx(lines[first:]))


def _google(lines: list[str]) -> dict[str, str]:
    """Entries stand at the depth of the section's first line; deeper lines go on with the one before."""
    found: dict[str, str] = {}
    inside, depth, name = False, 0, ""
    for line in lines:
        heading = _HEADING.match(line)
        if heading:
            inside, depth, name = heading[1] in _ARGUMENTS, 0, ""
        elif not inside or not line.strip():
            continue
        elif not line[0].isspace():
            inside = False
        else:
            indent = len(line) - len(line.lstrip())
            depth = depth or indent
            entry = _ENTRY.match(line.strip()) if indent <= depth else None
            if entry:
                name = entry[1]
            if name:
                _add(found, name, entry[2] if entry else line)
    return found


def _sphinx(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        param = _PARAM.match(line)
        if param:
            name = param[1]
            _add(found, name, param[2])
        elif not line[:1].isspace():
            name = ""
        elif name:
            _add(found, name, line)
    return found


def _add(found: dict[str, str], name: str, text: str) -> None:
    found[name] = f"{found.get(name, '')} {text.strip()}".strip()


def _paragraphs(lines: list[str]) -> str:
    """Lines of one paragraph are joined: how wide the source is means nothing to a model."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())
