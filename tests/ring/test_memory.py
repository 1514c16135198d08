"""Memory that runs out costs a request time and nothing else: its answer is the one that it has alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ring.real_ring import RealRing, ended
from tests.ring.test_batching import GRAMMARS, MANY, Asked, Model, models, play
from tests.ring.tiny_configs import LAYERS

__all__ = ["models"]  # a fixture

ASKED = st.builds(
    Asked,
    prompt=st.lists(st.integers(4, 300), min_size=1, max_size=30).map(tuple),
    max_tokens=st.integers(1, 30),
    grammar=st.sampled_from(GRAMMARS),
    at=st.integers(0, 12),
    cancel_after=st.none() | st.none() | st.none() | st.integers(0, 12),
)


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
@MANY
@given(
    plan=st.lists(ASKED, min_size=4, max_size=8),
    room=st.integers(60, 130),
    ahead=st.integers(0, 6),
    choices=st.lists(st.integers(0, 5), min_size=1, max_size=40),
)
def test_answers_that_were_preempted_are_token_for_token_those_of_the_whole_model(
    models: Callable[[str], Model], family: str, plan: list[Asked], room: int, ahead: int, choices: list[int]
) -> None:
    model = models(family)
    turn = iter(choices * 3000)
    play(model.ring(2, kv_tokens_max=room, kv_ahead=ahead), model.whole, plan, lambda: next(turn))


def test_under_a_grammar_with_forced_tokens_nothing_is_lost_either(models: Callable[[str], Model]) -> None:
    model = models("llama")
    ring = model.ring(2, kv_tokens_max=150, kv_ahead=2)
    plan = [Asked((5 + n, 9, 2), 60, GRAMMARS[1 + n % 2]) for n in range(5)]
    play(ring, model.whole, plan)
    assert ring.batcher.preemptions


@pytest.mark.ring
async def test_a_ring_of_processes_with_little_memory_ends_all_that_it_began(models: Callable[[str], Model]) -> None:
    model = models("llama")
    plan = [Asked(tuple((7 * n + at) % 290 + 4 for at in range(190)), 120) for n in (1, 6, 7)]
    async with RealRing(model.directory, (2, LAYERS - 2), kv_tokens_max=768) as ring:
        sent = [(asked, *ring.submit(asked.prompt, asked.spec())) for asked in plan]
        for asked, _, received in sent:
            assert tuple(await ended(received)) == model.whole.answer(asked.prompt, asked.max_tokens, asked.grammar)
        (_, first, _), (_, second, _), _ = sent
        log = list(ring.log)
        until_first_ended = log[: len(log) - log[::-1].index(first)]
        assert 60 < until_first_ended.count(second) < 80, "the second stops where memory runs out, and goes on later"
        too_long = replace(plan[0], max_tokens=600)
        _, refused = ring.submit(too_long.prompt, too_long.spec())
        with pytest.raises(AssertionError, match="190 tokens of prompt and 600 of answer"):
            await ended(refused)
        assert refused.news[-1].fault == "too_long"
        assert ring.breaks == []
