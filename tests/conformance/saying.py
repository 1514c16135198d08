"""Answers that are written by the test, read in three ways: an id at a time, all at once, and in random splits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ringleader.api.openai_read import read_chat
from ringleader.language.prompt import Prompt, compose, parser
from ringleader.values import ChatRequest, Delta, FinishReason, Json, Tool
from tests.conformance.matrix import FULL, dialects
from tests.unit.language.builders import NOTE, NOW, WEATHER, Collected, collect, request
from tests.unit.language.dialects.family import Family, all_families

FAMILIES = {family.label: family for family in all_families()}
PLAIN = FAMILIES["json_tags"]
TOOLS = (WEATHER, NOW, NOTE)
SOME = list(FAMILIES.values()) if FULL else [families[0] for families in dialects().values()]
SPLITS = 3  # random ones of each answer


@dataclass(frozen=True)
class Heard:
    """An answer as a client gets it."""

    text: str
    reasoning: str
    calls: list[tuple[str, str]]  # the whole ones: name and arguments
    begun: int  # calls that were announced
    finish: FinishReason
    deltas: list[Delta]


def hear(
    answer: str | Sequence[int],
    family: Family = PLAIN,
    *,
    choice: Json = "auto",
    tools: tuple[Tool, ...] = TOOLS,
    reason: FinishReason = "stop",
    stop: tuple[str, ...] = (),
    constrained: bool = True,
) -> Heard:
    """What becomes of `answer`, which comes after no opening. `constrained` False: no grammar stands behind it."""
    ids = family.tokenizer.encode(answer) if isinstance(answer, str) else list(answer)
    wish = request(choice, tools, stop=stop)
    prompt = compose(family.voice, wish)
    if not constrained:
        prompt = replace(prompt, grammar=None)
    heard = [_read(family, prompt, wish, pieces, reason) for pieces in _ways(ids)]
    assert all(_shape(each) == _shape(heard[0]) for each in heard), "how it was cut changed it"
    return heard[0]


def door(family: Family = PLAIN, **body: Json) -> Prompt:
    """The prompt of a body as a client sends it. Raises BadRequest as the API would."""
    messages = [{"role": "user", "content": "hi"}]
    voice = replace(family.voice, context_max=1_000_000)  # what is asked here is no question of room
    return compose(voice, read_chat({"model": "tiny", "messages": messages, **body}).requests()[0])


def shown(family: Family = PLAIN, **body: Json) -> str:
    """That prompt's text, without the opening."""
    prompt = door(family, **body)
    return family.tokenizer.decode(prompt.ids[: len(prompt.ids) - len(prompt.opening)])


def _read(
    family: Family, prompt: Prompt, wish: ChatRequest, pieces: Sequence[Sequence[int]], reason: FinishReason
) -> Heard:
    reader = parser(family.voice, prompt, wish)
    deltas = [delta for piece in pieces for delta in reader.feed(piece)]
    deltas += reader.finish("stop" if reader.stopped else reason)
    found: Collected = collect(deltas)
    calls = [(found.calls[n][0], found.calls[n][1]) for n in found.ended]
    finish = reader.finish_reason("stop" if reader.stopped else reason)
    return Heard(found.text, found.reasoning, calls, len(found.calls), finish, deltas)


def _ways(ids: Sequence[int]) -> list[list[Sequence[int]]]:
    ways: list[list[Sequence[int]]] = [[[token] for token in ids], [ids]]
    for seed in range(SPLITS):
        chance, at, pieces = random.Random(seed), 0, []
        while at < len(ids):
            size = chance.randint(1, 9)
            pieces.append(ids[at : at + size])
            at += size
        ways.append(pieces)
    return ways


def _shape(heard: Heard) -> Any:
    return heard.text, heard.reasoning, heard.calls, heard.begun, heard.finish
