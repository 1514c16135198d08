"""A real model on a real ring takes fewer passes than its answer has tokens, and gives the answer it gives anyway."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringleader.language.prompt import Voice, compose, voice
from ringleader.node.answer import specified
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ChatRequest, ContentFormat, CustomGrammar, Message, ModelId, Sampling, SlotSpec, Tool
from tests.ring.real_ring import RealRing, ended

pytestmark = pytest.mark.ring

FILE = '''class Stack:
    """A stack of items."""

    def __init__(self):
        self.items = []

    def push(self, item):
        """Put an item on top of the stack."""
        self.items.append(item)

    def pop(self):
        """Take the item that is on top of the stack."""
        return self.items.pop()
'''
EDIT = f"Rename the class Stack to Pile in this file and give back the whole file:\n\n```python\n{FILE}```"
PERSON = {
    "type": "object",
    "properties": {"first_name": {"type": "string", "maxLength": 12}, "year_of_birth": {"enum": [1980, 1990]}},
    "required": ["first_name", "year_of_birth"],
    "additionalProperties": False,
}
DAY = Tool("day", kind="custom", grammar=CustomGrammar("regex", r"the day is \d{4}-[01]\d-[0-3]\d"))
SUM = Tool(
    "sum", kind="custom", grammar=CustomGrammar("lark", 'start: TERM (" plus the next one " TERM)~3\nTERM: /[1-9]/')
)
KINDS: dict[str, dict[str, Any]] = {
    "call": {"tools": (Tool("add_person", parameters=PERSON),), "tool_choice": "required"},
    "form": {"content": ContentFormat("json_schema", "person", PERSON)},
    "regex": {"tools": (DAY,), "tool_choice": "required"},
    "lark": {"tools": (SUM,), "tool_choice": "required"},
    "text": {},
}
Asked = tuple[tuple[int, ...], SlotSpec]


def asked(speaks: Voice, text: str, max_tokens: int = 60, **fields: Any) -> Asked:
    sampling = Sampling(seed=0, temperature=0.0)
    request = ChatRequest(ModelId("m"), (Message("user", text),), sampling, max_tokens=max_tokens, **fields)
    prompt = compose(speaks, replace(request, max_tokens=None))
    return prompt.ids, specified(speaks, request, prompt)


def speaks_of(directory: Path) -> Voice:
    return voice(load_tokenizer(directory), 2048)


async def passes_and_answer(ring: RealRing, ids: tuple[int, ...], spec: SlotSpec) -> tuple[int, list[int]]:
    _, received = ring.submit(ids, spec)
    tokens = await ended(received)
    return received.news[-1].passes, tokens


async def test_a_code_edit_takes_a_fraction_of_the_passes_and_is_the_same_to_the_last_token(smollm: Path) -> None:
    speaks = speaks_of(smollm)
    ids, spec = asked(speaks, EDIT, 120)
    warm = replace(spec, sampling=Sampling(seed=5, temperature=0.4, top_p=0.9))
    async with RealRing(smollm, (15, 15)) as ring:
        for each, share in ((spec, 0.5), (warm, 0.7)):
            many, plain = await passes_and_answer(ring, ids, replace(each, drafts=False))
            few, drafted = await passes_and_answer(ring, ids, each)
            assert drafted == plain
            assert few < share * many
        _, known = await passes_and_answer(ring, ids, replace(spec, drafts=False))
        fewest, expected = await passes_and_answer(ring, ids, replace(spec, prediction=tuple(known)))
        assert expected == known
        assert fewest < 20, "what the client expects comes in a few passes"


async def test_answers_of_every_kind_share_passes_with_followers_and_drafts_and_stay_what_they_are(
    smollm: Path,
) -> None:
    speaks = speaks_of(smollm)
    kinds = {
        name: asked(speaks, EDIT if name == "text" else "Who are you?", **fields) for name, fields in KINDS.items()
    }
    async with RealRing(smollm, (15, 15)) as ring:
        alone = {}
        for name, (ids, spec) in kinds.items():
            alone[name] = await passes_and_answer(ring, ids, replace(spec, followers=False, drafts=False))
        together = await asyncio.gather(*(passes_and_answer(ring, ids, spec) for ids, spec in kinds.values()))
        for name, (passes, tokens) in zip(kinds, together, strict=True):
            assert tokens == alone[name][1], f"{name}: {speaks.tokenizer.decode(tokens)!r}"
            assert passes < 0.8 * alone[name][0], name
