"""The forced matrix: which answers are asked for, of which family, and what each must be.

A case is named by family, choice, taste, budget and seed: enough to make the same answer again.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jsonschema

from ringleader.language.prompt import Prompt, compose
from ringleader.values import ChatRequest, FinishReason, Sampling, Tool, Usage
from tests.conformance.adversary import generate
from tests.conformance.tastes import KINDS, taste
from tests.unit.language.builders import Collected, collect, request
from tests.unit.language.dialects.family import Family, all_families
from tests.unit.language.dialects.test_families import TOOLS as FAMILY_TOOLS

FULL = os.environ.get("RINGLEADER_CONFORMANCE") == "full"
A_DIALECT = 1000 if FULL else 12  # answers
ENOUGH = 256  # tokens: any family's shortest call of these tools and some reasoning fit
ENOUGH_FORMED = 512  # the same of the tool whose strings have forms, which wants six of them
TIGHT = (1, 2, 5, 10, 20, 40, 80)  # budgets that may be too small
TIGHT_SHARE = 5  # one case in so many is tight

# Strings of which each has its own end, which a model without sense never writes by itself.
FORMED = Tool(
    "send",
    "Send a file.",
    {
        "type": "object",
        "properties": {
            "file": {"type": "string", "pattern": "^.*\\.pdf$"},
            "to": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 2},
            "at": {"type": "string", "format": "date-time"},
            "key": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
            "why": {"type": "string", "pattern": "^[^@]+@[a-z]+\\.[a-z]{2,}$", "minLength": 12},
            "kind": {"type": ["string", "null"], "pattern": "^(?:left|right): .*;$"},
        },
        "required": ["file", "to", "at", "key", "why", "kind"],
    },
)
TOOLS = (*FAMILY_TOOLS, FORMED)
SCHEMAS: Mapping[str, Any] = {tool.name: tool.parameters or {} for tool in TOOLS}
FORMED = "named, strings of a form"
CHOICES: Mapping[str, tuple[Any, bool]] = {
    "required": ("required", True),
    "one call": ("required", False),
    "named": ({"type": "function", "function": {"name": "update"}}, True),
    "named, no arguments": ({"type": "function", "function": {"name": "get_all-9"}}, True),
    "named, any text": ("note", True),
    FORMED: ("send", True),
    "subset": (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": name}} for name in ("note", "update")],
            },
        },
        True,
    ),
    "subset, one call": ({"type": "allowed_tools", "mode": "required", "tools": ["now", "update"]}, False),
}


@dataclass(frozen=True)
class Case:
    """One answer that is asked for."""

    family: Family
    choice: str
    kind: str
    max_tokens: int
    seed: int

    def __str__(self) -> str:
        return f"{self.family.label} | {self.choice} | {self.kind} | {self.max_tokens} tokens | seed {self.seed}"


@dataclass
class Tally:
    """What came of a dialect's cases."""

    answers: int = 0
    complete: int = 0
    cut: int = 0
    calls: int = 0
    tokens: int = 0
    passes: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)

    def count(self, case: Case, found: Collected, reason: FinishReason, usage: Usage) -> None:
        self.answers += 1
        self.complete += reason == "tool_calls"
        self.cut += reason == "length"
        self.calls += len(found.ended)
        self.tokens += usage.completion_tokens
        self.passes += usage.passes
        self.by_kind[case.kind] = self.by_kind.get(case.kind, 0) + 1


def dialects() -> dict[str, list[Family]]:
    """The registered families by the dialect that they speak."""
    found: dict[str, list[Family]] = {}
    for family in all_families():
        found.setdefault(family.dialect, []).append(family)
    return found


def cases(families: list[Family], count: int) -> Iterator[Case]:
    """`count` cases, every kind of model and every choice in turn, in an order that hides no pair of them."""
    chance = random.Random(families[0].dialect)
    pairs = [(choice, kind) for choice in CHOICES for kind in KINDS]
    for n in range(count):
        if n % len(pairs) == 0:
            chance.shuffle(pairs)
        choice, kind = pairs[n % len(pairs)]
        tight = n % TIGHT_SHARE == TIGHT_SHARE - 1
        enough = ENOUGH_FORMED if choice == FORMED else ENOUGH
        yield Case(families[n % len(families)], choice, kind, chance.choice(TIGHT) if tight else enough, n)


_PROMPTS: dict[tuple[str, str], Prompt] = {}  # compiling is the slow part


def asked(case: Case) -> tuple[ChatRequest, Prompt]:
    choice, parallel = CHOICES[case.choice]
    wish = request(choice, TOOLS, parallel=parallel)
    key = (case.family.label, case.choice)
    if key not in _PROMPTS:
        _PROMPTS[key] = compose(case.family.voice, wish)
    return wish, _PROMPTS[key]


def run(case: Case, tally: Tally) -> None:
    """Make the answer and hold it to what was promised. Raises AssertionError, naming the case."""
    wish, prompt = asked(case)
    voice = case.family.voice
    model = taste(case.kind, voice.tokenizer, voice.dialect, case.seed)
    wish = replace(wish, sampling=Sampling(seed=case.seed, temperature=model.temperature))
    deltas, reason, usage = generate(voice, wish, model.logits, case.max_tokens, prompt)
    found = collect(deltas)
    try:
        check(case, prompt, found, reason, usage)
    except (AssertionError, ValueError, jsonschema.ValidationError) as error:
        raise AssertionError(f"{case}: {error}\n{reason}: {found}") from error
    tally.count(case, found, reason, usage)


def check(case: Case, prompt: Prompt, found: Collected, reason: FinishReason, usage: Usage) -> None:
    """The promise: calls and nothing else, whole and valid, or an honest `length`."""
    assert found.text == "", "text beside forced calls"
    assert usage.completion_tokens <= case.max_tokens
    assert len(found.calls) <= prompt.choice.most, "more calls than were asked for"
    assert all(name in prompt.choice.permitted for name, _ in found.calls), "a tool that is not permitted"
    whole = [found.calls[index] for index in found.ended]
    assert found.ended == list(range(len(whole)))
    for name, arguments in whole:
        values = json.loads(arguments)
        jsonschema.validate(values, SCHEMAS[name], format_checker=jsonschema.FormatChecker())
        assert set(values) <= set(SCHEMAS[name].get("properties", {})), "keys that were not declared"
    if reason == "length":
        assert case.max_tokens <= max(TIGHT), f"no call in {case.max_tokens} tokens"
        return
    assert reason == "tool_calls"
    assert len(whole) == len(found.calls), "a call without an end"
    assert len(whole) >= prompt.choice.least
