"""Every form of calls that is spoken can be ended in time, whatever it takes: the shared table of families."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from ringleader.language.prompt import Prompt, compose
from ringleader.shard.closing import Closer, Ending
from ringleader.shard.steering import Steering
from ringleader.shard.terminators import terminators
from ringleader.values import Sampling, SlotSpec
from tests.unit.language.builders import NOTE, NOW, request
from tests.unit.language.dialects.family import Family, all_families

FAMILIES = {family.label: family for family in all_families()}
LONGEST = 150


@cache
def prompt_of(label: str) -> Prompt:
    return compose(FAMILIES[label].voice, request("required", (NOTE, NOW)))


@cache
def closer_of(label: str) -> Closer:
    tokenizer = FAMILIES[label].tokenizer
    return Closer(tokenizer.grammar_view, frozenset(tokenizer.eos_ids))


def begun(family: Family, prompt: Prompt) -> Any:
    matcher = LLMatcher(family.tokenizer.grammar_view, prompt.grammar, log_level=0)
    assert matcher.consume_tokens(list(prompt.opening))
    return matcher


def shortest(label: str) -> int:
    prompt, closer = prompt_of(label), closer_of(label)
    closers: list[Ending] = [closer.tokens(text) for text in terminators(prompt.grammar or "")]
    found = closer.ending(begun(FAMILIES[label], prompt), LONGEST, closers, steps=1000)
    assert found is not None
    return len(found)


@pytest.mark.parametrize("label", FAMILIES)
def test_a_model_of_noise_completes_its_call_in_the_tokens_that_there_are(label: str) -> None:
    family, prompt, fewest = FAMILIES[label], prompt_of(label), shortest(label)
    vocab_size = family.tokenizer.vocab_size
    mask = allocate_token_bitmask(1, vocab_size)
    for budget in (fewest, fewest + 7, fewest + 30):
        chance = np.random.default_rng(budget)
        matcher = begun(family, prompt)
        spec = SlotSpec(Sampling(seed=1), budget, 1, grammar=prompt.grammar or "", demanded=True)
        steering = Steering(closer_of(label), spec, matcher)
        rest = budget
        while rest > 0 and not matcher.is_stopped():
            fill_next_token_bitmask(matcher, mask, 0)
            legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            token = steering.choose(matcher, int(chance.choice(legal)), rest)
            assert matcher.consume_token(token)
            forced = matcher.compute_ff_tokens()
            assert not forced or matcher.consume_tokens(forced)
            steering.follow(forced)
            rest -= 1 + len(forced)
        assert rest >= 0 and matcher.is_accepting(), (label, budget)
