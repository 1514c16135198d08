"""Answers that begin from kept prefixes are those that the whole model gives from nothing, whatever is kept or lost.

The ring is that of test_batching.py: real engines and a real batcher, without processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringleader.shard.batcher import Batcher, Limits
from ringleader.shard.engine import Engine
from ringleader.shard.kv_bits import keep_in_bits
from ringleader.shard.loader import load_slice
from ringleader.shard.prefixes import BLOCK_TOKENS
from ringleader.values import LayerRange
from tests.ring.test_batching import GRAMMARS, PASSES_MAX, Asked, Model, Ring, _made, play
from tests.ring.tiny_configs import FAMILIES, LAYERS
from tests.ring.tiny_models import make_tiny_model

SYSTEMS = tuple(tuple(4 + (number * 31 + at * 7) % 290 for at in range(40 + 45 * number)) for number in range(3))
LIMITS = Limits(chunk_tokens=32, flight_max=2, machines=(0, 1))
TURN = tuple(range(60, 90))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    base = tmp_path_factory.mktemp("models")
    return lambda family: _made(family, base)


def conversation(model: Model, system: tuple[int, ...], turns: int, max_tokens: int = 12) -> list[Asked]:
    """Turns that follow each other: each begins with the one before, and its answer."""
    asked = [Asked((*system, *TURN), max_tokens)]
    for turn in range(turns - 1):
        last = asked[-1]
        answer = model.whole.answer(last.prompt, last.max_tokens, last.grammar)
        asked.append(Asked((*last.prompt, *answer, *TURN[turn:]), max_tokens))
    return asked


def play_in_turn(model: Model, ring: Ring, plan: list[Asked]) -> list[int]:
    """One request after the other; how many tokens of each prompt were not computed."""
    cached = []
    for number, asked in enumerate(plan):
        ring.answers.clear()
        ring.cached.clear()
        play(ring, model.whole, [asked])
        cached.append(ring.cached["r0"])
        assert number < PASSES_MAX
    return cached


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next", "gpt_oss", "lfm2", "deepseek_v32"])
def test_a_turn_computes_what_is_new_in_it(models: Callable[[str], Model], family: str, shards: int) -> None:
    model = models(family)
    turns = conversation(model, SYSTEMS[2], 4)
    cached = play_in_turn(model, model.ring(shards), turns)
    assert cached[0] == 0
    for (before, after), had in zip(pairwise(turns), cached[1:], strict=True):
        known = len(before.prompt) + before.max_tokens - 1  # of the last token no keys were computed
        assert known - BLOCK_TOKENS < had <= known, f"{had} of {len(after.prompt)} tokens were kept, {known} were known"


def bare(directory: Path, bits: int = 0, **changes: Any) -> Ring:
    """A ring of two shards that knows no tokenizer: not every tiny config has one that can be read."""
    parts = [load_slice(directory, layers, LAYERS, lambda _: None) for layers in (LayerRange(0, 2), LayerRange(2, 6))]
    for part in parts if bits else ():
        keep_in_bits(part, bits)
    engines = [Engine(part, None) for part in parts]
    state_tokens = max(engine.state_tokens for engine in engines)
    return Ring(engines, Batcher(replace(LIMITS, state_tokens=state_tokens, **changes)))


def answer(ring: Ring, prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    ring.answers["one"] = []
    assert ring.batcher.submit("one", prompt, Asked(prompt, max_tokens).spec())
    while ring.step():
        pass
    return tuple(ring.answers["one"])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_that_is_served_goes_on_from_what_is_kept(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path)
    cold, warm = bare(directory, keeps=False), bare(directory)
    prompt, cached = (*SYSTEMS[1], *TURN), []
    for number in range(3):
        found = answer(cold, prompt, 6)
        assert answer(warm, prompt, 6) == found
        cached.append(warm.cached["one"])
        prompt = (*prompt, *found, *TURN[number:])
    assert cached[0] == 0 < cached[1] < cached[2]
    for begin in (5, 9):  # where two prompts part is known with the second; the third begins there
        prompt = (*SYSTEMS[1], *TURN[begin:])
        assert answer(warm, prompt, 6) == answer(cold, prompt, 6)
    assert warm.cached["one"] == len(SYSTEMS[1]) // BLOCK_TOKENS * BLOCK_TOKENS


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_keys_and_values_of_fewer_bits_are_kept_as_they_are(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path, head_dim=64)
    cold, warm = bare(directory, 8, keeps=False), bare(directory, 8)
    prompt = (*SYSTEMS[1], *TURN)
    found = answer(cold, prompt, 6)
    assert answer(warm, prompt, 6) == found
    turn = (*prompt, *found, *TURN)
    assert answer(warm, turn, 6) == answer(cold, turn, 6)
    assert warm.cached["one"] >= len(prompt) - BLOCK_TOKENS


@pytest.mark.parametrize("loser", [0, 1, 2])
def test_a_shard_that_lost_what_it_kept_costs_time_and_no_token(models: Callable[[str], Model], loser: int) -> None:
    model = models("llama")
    ring = model.ring(3)
    turns = conversation(model, SYSTEMS[2], 3)
    play_in_turn(model, ring, turns[:2])
    ring.engines[loser].forget_kept()
    others = [Asked((*SYSTEMS[2], *TURN[at:], 9), 12) for at in range(3)]
    ring.answers.clear()
    play(ring, model.whole, [turns[2], *others])
    assert ring.cached["r0"] == 0, "it was computed from its first token"
    assert play_in_turn(model, ring, turns[1:])[1] > len(turns[1].prompt), "and is kept again"


def test_what_is_kept_gives_way_to_whoever_needs_the_room(models: Callable[[str], Model]) -> None:
    model = models("llama")
    one, other = (conversation(model, SYSTEMS[number], 1)[0] for number in (1, 2))
    room = len(other.prompt) + other.max_tokens
    assert play_in_turn(model, model.ring(2, kv_tokens_max=room), [one, other, one]) == [0, 0, 0]
    assert play_in_turn(model, model.ring(2, kv_tokens_max=room), [other, other])[1] > room - 64
    assert play_in_turn(model, model.ring(2, keeps=False), [other, other]) == [0, 0]


def test_who_computes_the_same_at_once_computes_it_once(models: Callable[[str], Model]) -> None:
    model = models("llama")
    ring = model.ring(2)
    play(ring, model.whole, [Asked((*SYSTEMS[2], *TURN[at:]), 8) for at in range(4)])
    shared = len(SYSTEMS[2]) // BLOCK_TOKENS * BLOCK_TOKENS
    assert sorted(ring.cached.values()) == [0, shared, shared, shared]


def test_choices_of_one_prompt_compute_it_once_whatever_the_family(models: Callable[[str], Model]) -> None:
    for family in ("llama", "gemma3_text", "qwen3_next"):
        model = models(family)
        ring = model.ring(2)
        prompt = (*SYSTEMS[2], *TURN)
        play(ring, model.whole, [Asked(prompt, 8) for _ in range(4)])
        assert sorted(ring.cached.values())[1] >= len(prompt) - 16 - BLOCK_TOKENS


TURNS = st.tuples(st.sampled_from(SYSTEMS), st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(1, 14))
MANY = settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def branching(model: Model, told: list[tuple[tuple[int, ...], list[int], int]]) -> list[Asked]:
    """Conversations that begin alike and part: each turn's number says which of four things the user says."""
    plan = []
    for number, (prompt, says, max_tokens) in enumerate(told):
        for turn, said in enumerate(says):
            prompt = (*prompt, *TURN[5 * said : 5 * said + 20])
            grammar = GRAMMARS[said] if said < len(GRAMMARS) and number % 2 else ""
            asked = Asked(prompt, max_tokens, grammar, at=12 * turn + 5 * number)
            plan.append(asked)
            prompt = (*prompt, *model.whole.answer(asked.prompt, asked.max_tokens, asked.grammar))
    return plan


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next"])
@MANY
@given(
    told=st.lists(TURNS, min_size=2, max_size=5),
    room=st.integers(300, 1200),
    lost=st.none() | st.integers(5, 60),
    cancel_after=st.lists(st.none() | st.none() | st.integers(0, 6), min_size=1, max_size=4),
    choices=st.lists(st.integers(0, 5), min_size=1, max_size=40),
)
def test_conversations_that_share_and_part_are_answered_as_by_the_whole_model(
    models: Callable[[str], Model],
    family: str,
    shards: int,
    told: list[tuple[tuple[int, ...], list[int], int]],
    room: int,
    lost: int | None,
    cancel_after: list[int | None],
    choices: list[int],
) -> None:
    model = models(family)
    plan = branching(model, told)
    plan = [replace(a, cancel_after=cancel_after[n % len(cancel_after)]) for n, a in enumerate(plan)]
    ring = model.ring(shards, kv_tokens_max=room)
    steps = count()

    def choose() -> int:
        if next(steps) == lost:
            ring.engines[-1].forget_kept()
        return choices[next(steps) % len(choices)]

    play(ring, model.whole, plan, choose)
    kept = {frozenset(name for name in engine.kept_names()) for engine in ring.engines}
    assert lost is not None or len(kept) == 1, "all shards keep the same"
    assert lost is not None or ring.batcher.kept_names() == kept.pop()


def test_a_resumed_answer_begins_from_what_is_kept_of_it(models: Callable[[str], Model]) -> None:
    model = models("llama")
    for grammar in GRAMMARS[:1]:
        ring = model.ring(2)
        asked = Asked((*SYSTEMS[1], *TURN), 60, grammar)
        play(ring, model.whole, [replace(asked, cancel_after=50)])
        ring.answers.clear()
        play(ring, model.whole, [replace(asked, resumed=48)])
        assert ring.cached["r0"] == len(asked.prompt), "all of the prompt, and of the answer more"


@pytest.mark.parametrize("shards", [1, 2])
def test_what_was_guessed_wrongly_is_not_kept(models: Callable[[str], Model], shards: int) -> None:
    model = models("llama")
    ring = model.ring(shards)
    for engine in ring.engines:
        engine.steps_back = engine.drafts = True
    loop = (*SYSTEMS[1], *(TURN[:7] * 9))
    plan = [Asked((*loop, *TURN[:4], said), 70) for said in (5, 9, 77)]
    play(ring, model.whole, plan)  # together: rows of a batch with guesses of their own
    ring.answers.clear()
    play(ring, model.whole, [Asked((*a.prompt, *model.whole.answer(a.prompt, 70, ""), 8, 9), 20) for a in plan])
    for asked, cached in zip(plan, ring.cached.values(), strict=True):
        assert cached >= len(asked.prompt) + 70 - 2 * BLOCK_TOKENS, "of the answers, too"
    assert ring.drafted > 0
    for engine in ring.engines:
        engine.steps_back = engine.drafts = False
