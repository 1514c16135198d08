"""An answer that another ring goes on with is the answer that the first ring would have given."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ringleader.node.answer import specified
from ringleader.values import Sampling
from tests.conformance.adversary import tail
from tests.conformance.matrix import A_DIALECT, Case, asked, cases, dialects
from tests.conformance.tastes import taste

DIALECTS = dialects()
CASES = max(6, A_DIALECT // 40)
PLACES = 3  # at which each answer is lost


def picks(case: Case, resumed: Sequence[int] = ()) -> list[tuple[tuple[int, ...], str]]:
    """What the tail gives after `resumed`."""
    wish, prompt = asked(case)
    voice = case.family.voice
    model = taste(case.kind, voice.tokenizer, voice.dialect, case.seed)
    wish = replace(wish, max_tokens=case.max_tokens, sampling=Sampling(seed=case.seed, temperature=model.temperature))
    spec = replace(specified(voice, wish, prompt), resumed_tokens=len(resumed))

    def logits(written: Sequence[int]) -> Any:
        return model.logits([*resumed, *written])

    told = tail(voice.tokenizer, [*prompt.ids, *resumed], spec, logits)
    return [(picked.tokens, picked.finish) for picked in told]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_resumed_answer_goes_on_as_the_lost_one_would_have(dialect: str) -> None:
    chance = random.Random(dialect)
    for case in cases(DIALECTS[dialect], CASES):
        whole = picks(case)
        for at in sorted(chance.sample(range(1, len(whole)), min(PLACES, len(whole) - 1))):
            before = [token for tokens, _ in whole[:at] for token in tokens]
            assert picks(case, before) == whole[at:], f"{case}: lost after {at} of {len(whole)} picks"
