"""Drafts change no token: whatever is guessed, an answer is the one that is drawn without any guess.

Right, wrong and half right guesses are put where the tail's own would be, so that every way on is gone; the ring is
the real one without processes, as in `test_batching.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringleader.shard.batcher import Segments
from ringleader.shard.prefixes import BLOCK_TOKENS
from ringleader.shard.sampler import Picked
from ringleader.values import Sampling, SlotSpec, TokenLogprob
from tests.ring.test_batching import GRAMMARS, PASSES_MAX, Model, Ring, _made

Guess = Callable[[tuple[int, ...]], tuple[int, ...]]  # from what will come to what is guessed


@dataclass(frozen=True)
class Asked:
    """A request. `at` is the pass before which it comes, `cancel_after` the tokens after which it is cancelled."""

    prompt: tuple[int, ...]
    spec: SlotSpec
    at: int = 0
    cancel_after: int | None = None


@dataclass
class Answered:
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: str = ""


@dataclass
class Drafting(Ring):
    """A ring whose tail guesses by the request's own `guess`; requests are told apart by their seeds."""

    expected: dict[int, Answered] = field(default_factory=dict)
    guess: Guess | None = None
    found: dict[int, Answered] = field(default_factory=dict)
    seeds: dict[int, int] = field(default_factory=dict)  # of slots
    passes: int = 0

    def _returned(self, sent: Segments, picked: tuple[Picked, ...]) -> None:
        self.passes += 1
        guessed = []
        for turn, each in zip(sent.turns, picked, strict=True):
            if turn.spec is not None:
                self.seeds[turn.slot] = turn.spec.sampling.seed
            answered = self.found.setdefault(self.seeds[turn.slot], Answered())
            answered.tokens += each.tokens
            answered.logprobs += each.logprobs
            answered.finish = each.finish
            if self.guess is not None and each.tokens:
                expected = self.expected[self.seeds[turn.slot]].tokens
                coming = tuple(expected[len(answered.tokens) :][:-1])  # none may stand where the last one is drawn
                each = replace(each, drafts=self.guess(coming))
            guessed.append(each)
        super()._returned(sent, tuple(guessed))


def ring_of(model: Model, shards: int, guess: Guess | None, expected: dict[int, Answered]) -> Drafting:
    plain = model.ring(shards)
    for engine in plain.engines:
        engine.steps_back, engine.drafts = True, guess is None
    return Drafting(plain.engines, plain.batcher, guess=guess, expected=expected)


def play(ring: Drafting, plan: list[Asked]) -> dict[int, Answered]:
    """All requests of a plan, to the end."""
    for count in range(PASSES_MAX):
        for asked in plan:
            name = str(asked.spec.sampling.seed)
            if asked.at <= count and name not in ring.answers:
                ring.answers[name] = []
                assert ring.batcher.submit(name, asked.prompt, asked.spec)
            if asked.cancel_after is not None and len(ring.answers.get(name, ())) > asked.cancel_after:
                ring.batcher.cancel(name)
        if not ring.step() and len(ring.answers) == len(plan):
            break
    else:
        raise AssertionError("the ring did not come to an end")
    assert [engine.slots for engine in ring.engines] == [0] * len(ring.engines), "slots are left behind"
    return ring.found


def alone(model: Model, asked: Asked) -> Answered:
    """The answer of a ring in which nobody guesses and nobody else is."""
    plain = replace(asked, at=0, cancel_after=None, spec=replace(asked.spec, drafts=False))
    return play(ring_of(model, 1, None, {}), [plain])[asked.spec.sampling.seed]


def same(mine: Answered, other: Answered) -> bool:
    """Tokens are the same to the last one; logprobs as near as products of several rows are to those of one."""
    near = all(abs(a.logprob - b.logprob) < 1e-3 for a, b in zip(mine.logprobs, other.logprobs, strict=False))
    return mine.tokens == other.tokens and len(mine.logprobs) == len(other.logprobs) and near


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("drafts"))


@cache
def made(directory: Path) -> Model:
    return _made("llama", directory)


def a_guesser(rng: random.Random) -> Guess:
    """Sometimes right, sometimes wrong, sometimes right until somewhere; of any length."""

    def guess(coming: tuple[int, ...]) -> tuple[int, ...]:
        length, right = rng.randint(0, len(coming)), rng.choice([0, 1, 2, 5, 100])
        return tuple(token if at < right else rng.randrange(4, 300) for at, token in enumerate(coming[:length]))

    return guess


SAMPLINGS = st.builds(
    Sampling,
    seed=st.just(0),
    temperature=st.sampled_from([0.0, 0.0, 0.7, 1.5]),
    top_p=st.sampled_from([1.0, 0.9]),
    top_k=st.sampled_from([0, 40]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.8]),
)
ASKED = st.builds(
    lambda prompt, sampling, grammar, tokens, logprobs, demanded, at, cancel: Asked(
        prompt,
        SlotSpec(sampling, tokens, len(prompt), grammar=grammar, top_logprobs=logprobs, demanded=demanded),
        at,
        cancel,
    ),
    st.lists(st.integers(4, 300), min_size=1, max_size=40).map(tuple),
    SAMPLINGS,
    st.sampled_from(GRAMMARS),
    st.integers(1, 40),
    st.sampled_from([None, None, 2]),
    st.booleans(),
    st.integers(0, 20),
    st.none() | st.none() | st.integers(0, 12),
)


@pytest.mark.parametrize("shards", [1, 2])
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plan=st.lists(ASKED, min_size=1, max_size=6), seed=st.integers(0, 1 << 30))
def test_no_guess_changes_an_answer_of_any_kind_in_any_company(
    model: Model, shards: int, plan: list[Asked], seed: int
) -> None:
    plan = [
        replace(asked, spec=replace(asked.spec, sampling=replace(asked.spec.sampling, seed=number)))
        for number, asked in enumerate(plan)
    ]
    expected = {number: alone(model, asked) for number, asked in enumerate(plan)}
    found = play(ring_of(model, shards, a_guesser(random.Random(seed)), expected), plan)
    for number, asked in enumerate(plan):
        if asked.cancel_after is None:
            assert same(found[number], expected[number]), f"request {number} of {plan}"
            assert found[number].finish == expected[number].finish
        elif number in found:
            assert found[number].tokens == expected[number].tokens[: len(found[number].tokens)]


@pytest.mark.parametrize("shards", [1, 2])
def test_what_is_kept_of_an_answer_with_wrong_drafts_at_its_end_is_what_was_answered(model: Model, shards: int) -> None:
    def asked(seed: int, prompt: tuple[int, ...]) -> Asked:
        return Asked(prompt, SlotSpec(Sampling(seed=seed, temperature=0.9), 40, len(prompt)))

    first = [asked(seed, tuple(range(5 + seed, 60 + 3 * seed))) for seed in range(3)]
    expected = {each.spec.sampling.seed: alone(model, each) for each in first}
    later = [
        asked(10 + seed, (*each.prompt, *expected[seed].tokens, 9, 8, 7)) for seed, each in enumerate(first)
    ]  # each goes on where one before it ended
    expected |= {each.spec.sampling.seed: alone(model, each) for each in later}
    ring = ring_of(model, shards, a_guesser(random.Random(4)), expected)
    play(ring, first)
    found = play(ring, [*first, *later])
    for before, each in zip(first, later, strict=True):
        seed = each.spec.sampling.seed
        assert found[seed].tokens == expected[seed].tokens
        computed = len(before.prompt) + len(expected[seed - 10].tokens) - 1  # nothing was computed after its last token
        assert ring.cached[str(seed)] == computed // BLOCK_TOKENS * BLOCK_TOKENS
