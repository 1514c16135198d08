"""The JSON Schema Test Suite as parameters of a tool, in a family's own form.

What is accepted must read as valid, or be found out by the check that goes with the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.enforcement import violation
from ringleader.language.prompt import compose, parser
from ringleader.values import Tool
from tests.unit.language.builders import collect, request
from tests.unit.language.dialects.family import Family

ELSEWHERE = ("$ref", "$id", "$anchor", "$dynamicRef", "$defs")  # mean the root, which a parameter is not


@dataclass
class Tally:
    """What came of a family's questions."""

    schemas: int = 0
    refused: int = 0
    written: int = 0  # values that the grammar lets the model write
    valid: int = 0  # values that the schema allows


def ask(family: Family, path: Path, tally: Tally) -> list[str]:
    """Put a file's cases to a forced call; gives what was accepted and is read as something invalid."""
    wrong: list[str] = []
    for group in json.loads(path.read_text(encoding="utf-8")):
        if isinstance(group["schema"], dict) and not any(f'"{key}"' in json.dumps(group) for key in ELSEWHERE):
            wrong += [f"{path.stem} / {group['description']}: {found}" for found in _ask(family, group, tally)]
    return wrong


def _ask(family: Family, group: Any, tally: Tally) -> Iterator[str]:
    schema = {key: value for key, value in group["schema"].items() if key != "$schema"}
    tool = Tool("f", "", {"type": "object", "properties": {"v": schema}, "required": ["v"]})
    wish = request("f", (tool,))
    tally.schemas += 1
    try:
        prompt = compose(family.voice, wish)
    except BadRequest:
        tally.refused += 1
        return
    validator = jsonschema.Draft202012Validator(schema)
    matcher = LLMatcher(family.tokenizer.grammar_view, prompt.grammar, log_level=0)
    for case in group["tests"]:
        tally.valid += case["valid"]
        ids = family.tokenizer.encode(family.write([("f", {"v": case["data"]})]))
        walked = matcher.deep_copy()
        if walked.try_consume_tokens(ids) != len(ids) or not walked.is_accepting():
            continue
        reader = parser(family.voice, prompt, wish)
        found = collect([*reader.feed(ids), *reader.finish("stop")])
        tally.written += 1
        arguments = json.loads(found.calls[0][1])
        told = violation(prompt.checks.get("f"), found.calls[0][1]) is not None
        if found.ended != [0] or not (told or validator.is_valid(arguments["v"])):
            yield f"{case['data']!r} is read as {arguments!r}"
