"""How tokens are picked: what each knob really does, and that no knob gets past the grammar."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from llguidance import LLMatcher

from ringleader.shard.drawing import drawn
from ringleader.shard.sampler import Picked, Sampler, pick_rows
from ringleader.tokenizer import Tokenizer
from ringleader.values import Sampling, SlotSpec

WIDTH = 384
DRAWS = 400
GREEDY = Sampling(seed=0, temperature=0.0)
COLOURS = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def spec(sampling: Sampling = GREEDY, *, max_tokens: int = 100, prompt_tokens: int = 0, **fields: Any) -> SlotSpec:
    return SlotSpec(sampling, max_tokens=max_tokens, prompt_tokens=prompt_tokens, **fields)


def row(*values: float) -> Any:
    """Logits that begin with `values`; the rest can never win."""
    return mx.array([*values, *[-50.0] * (WIDTH - len(values))])


def noise(position: int) -> Any:
    return mx.array(np.random.default_rng(position).normal(size=WIDTH).astype(np.float32))


def matcher(tokenizer: Tokenizer, lark: str) -> Future[Any]:
    ready: Future[Any] = Future()
    ready.set_result(LLMatcher(tokenizer.grammar_view, LLMatcher.grammar_from_lark(lark), log_level=0))
    return ready


def json_grammar(schema: Any) -> str:
    return f"start: %json {json.dumps({**schema, 'x-guidance': {'whitespace_flexible': False}})}"


def draws(logits: Any, sampling: Sampling, count: int = DRAWS) -> Counter[int]:
    """First tokens of `count` requests that differ in their seed alone."""
    samplers = (Sampler(spec(replace(sampling, seed=seed)), None, frozenset()) for seed in range(count))
    return Counter(sampler.pick(logits).tokens[0] for sampler in samplers)


# ---------------------------------------------------------------- drawing


def test_temperature_zero_takes_the_likeliest() -> None:
    assert Sampler(spec(), None, frozenset()).pick(row(0.1, 2.0, 1.9)) == Picked((1,), drawn=1)


def test_a_draw_is_a_function_of_seed_and_position_alone() -> None:
    def run(seed: int, count: int = 12) -> list[int]:
        sampler = Sampler(spec(Sampling(seed=seed)), None, frozenset())
        return [sampler.pick(noise(position)).tokens[0] for position in range(count)]

    assert run(5) == run(5)
    assert run(5) != run(6)
    late = Sampler(spec(Sampling(seed=5), prompt_tokens=6), None, frozenset())
    late.extend_prompt(tuple(run(5)[:6]))  # the same place, reached as a prompt: a request that was submitted again
    assert [late.pick(noise(position)).tokens[0] for position in range(6, 12)] == run(5)[6:]


def test_the_same_logits_at_other_positions_draw_other_tokens() -> None:
    sampler = Sampler(spec(Sampling(seed=1)), None, frozenset())
    flat = mx.zeros(WIDTH)
    assert len({sampler.pick(flat).tokens[0] for _ in range(50)}) > 30


def test_draws_follow_the_distribution() -> None:
    found = draws(row(math.log(0.5), math.log(0.3), math.log(0.2)), Sampling(seed=0))
    for token, share in enumerate((0.5, 0.3, 0.2)):
        assert found[token] / DRAWS == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / DRAWS))


def test_a_low_temperature_sharpens_and_a_high_one_flattens() -> None:
    logits = row(1.0, 0.0)
    cold, hot = (draws(logits, Sampling(seed=0, temperature=t))[0] / DRAWS for t in (0.25, 4.0))
    assert cold == pytest.approx(1 / (1 + math.exp(-4)), abs=0.05)
    assert hot == pytest.approx(1 / (1 + math.exp(-0.25)), abs=0.1)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(seed=0, top_k=2), {0, 1}),
        (Sampling(seed=0, top_k=1), {0}),
        (Sampling(seed=0, top_p=0.45), {0, 1}),
        (Sampling(seed=0, top_p=0.15), {0}),
        (Sampling(seed=0, min_p=0.55), {0, 1, 2}),
        (Sampling(seed=0, min_p=0.99), {0}),
        (Sampling(seed=0), {0, 1, 2, 3}),
        (Sampling(seed=0, top_k=3, top_p=0.6), {0, 1}),
    ],
    ids=["k 2", "k 1", "p .45", "p .15", "min .55", "min .99", "nothing", "k and p"],
)
def test_what_is_cut_off_is_never_drawn_and_what_is_kept_is(sampling: Sampling, kept: set[int]) -> None:
    shares = (0.32, 0.28, 0.22, 0.14)
    assert set(draws(row(*(math.log(share) for share in shares)), sampling)) == kept


def test_tokens_that_come_back_to_the_tail_for_their_pass_are_not_counted_again() -> None:
    asked = spec(Sampling(seed=5), prompt_tokens=1)
    fed, alone = Sampler(asked, None, frozenset()), Sampler(asked, None, frozenset())
    for sampler in (fed, alone):
        sampler.extend_prompt((7,))
    for position in range(8):
        picked = fed.pick(noise(position))
        fed.extend_prompt(picked.tokens)  # as the engine does with every segment
        assert picked == alone.pick(noise(position))
    assert fed.generated == alone.generated == 8


# ---------------------------------------------------------------- moving logits


def test_repetition_penalty_weighs_on_prompt_and_answer() -> None:
    sampler = Sampler(spec(replace(GREEDY, repetition_penalty=2.0), prompt_tokens=1), None, frozenset())
    sampler.extend_prompt((0,))
    logits = row(3.0, 2.0, 1.8)
    assert [sampler.pick(logits).tokens[0] for _ in range(2)] == [1, 2]


def test_presence_penalty_weighs_on_the_answer_alone_and_once() -> None:
    sampler = Sampler(spec(replace(GREEDY, presence_penalty=1.0), prompt_tokens=2), None, frozenset())
    sampler.extend_prompt((0, 0))
    logits = row(3.0, 2.5)
    assert [sampler.pick(logits).tokens[0] for _ in range(4)] == [0, 1, 0, 0]


def test_frequency_penalty_grows_with_each_use() -> None:
    sampler = Sampler(spec(replace(GREEDY, frequency_penalty=1.0)), None, frozenset())
    logits = row(3.0, 1.5)
    assert [sampler.pick(logits).tokens[0] for _ in range(5)] == [0, 0, 1, 0, 1]


def test_logit_bias_moves_the_tokens_that_it_names() -> None:
    pick = Sampler(spec(replace(GREEDY, logit_bias=((0, -100.0), (3, 60.0)))), None, frozenset()).pick
    assert pick(row(5.0, 4.0)).tokens == (3,)


# ---------------------------------------------------------------- ending


def test_an_end_token_stops_an_answer_without_grammar() -> None:
    sampler = Sampler(spec(), None, frozenset({1}))
    assert sampler.pick(row(1.0, 0.0)) == Picked((0,), drawn=1)
    assert sampler.pick(row(0.0, 1.0)) == Picked((1,), "stop", drawn=1)


def test_the_last_token_that_has_room_says_length_unless_it_ends_the_answer() -> None:
    sampler = Sampler(spec(max_tokens=2), None, frozenset({1}))
    assert sampler.pick(row(1.0)).finish == ""
    assert sampler.pick(row(1.0)).finish == "length"
    just_fits = Sampler(spec(max_tokens=1), None, frozenset({1}))
    assert just_fits.pick(row(0.0, 1.0)).finish == "stop"


# ---------------------------------------------------------------- the grammar


def run_to_end(sampler: Sampler) -> tuple[list[int], list[Picked]]:
    tokens: list[int] = []
    picks: list[Picked] = []
    while not picks or not picks[-1].finish:
        picks.append(sampler.pick(noise(len(tokens))))
        tokens += picks[-1].tokens
        assert len(picks) < 200
    return tokens, picks


def without_end(tokenizer: Tokenizer, tokens: list[int]) -> str:
    return tokenizer.decode([token for token in tokens if token not in tokenizer.eos_ids])


@pytest.mark.parametrize("seed", range(10))
def test_a_grammar_is_obeyed_to_its_end_whatever_the_logits(tokenizer: Tokenizer, seed: int) -> None:
    grammar = json_grammar(COLOURS)
    sampler = Sampler(spec(Sampling(seed=seed)), matcher(tokenizer, grammar), frozenset(tokenizer.eos_ids))
    tokens, picks = run_to_end(sampler)
    assert json.loads(without_end(tokenizer, tokens))["colour"] in ("red", "blue")
    assert picks[-1].finish == "stop"


def test_followers_save_passes_and_change_no_token(tokenizer: Tokenizer) -> None:
    def run(seed: int, followers: bool) -> tuple[list[int], list[Picked]]:
        asked = spec(Sampling(seed=seed), followers=followers)
        return run_to_end(Sampler(asked, matcher(tokenizer, json_grammar(COLOURS)), frozenset(tokenizer.eos_ids)))

    for seed in range(10):
        (together, few), (alone, many) = run(seed, True), run(seed, False)
        assert without_end(tokenizer, together) == without_end(tokenizer, alone)
        assert together[: len(alone)] == alone[: len(together)]
        assert len(few) < len(many)
        assert all(len(pick.tokens) == 1 for pick in many)


def test_no_bias_and_no_penalty_brings_back_what_the_grammar_refuses(tokenizer: Tokenizer) -> None:
    illegal = tokenizer.encode("Z")[0]
    sampling = Sampling(seed=0, logit_bias=((illegal, 100.0),), repetition_penalty=0.5, presence_penalty=-2.0)
    for temperature in (0.0, 1.0):
        sampler = Sampler(
            spec(replace(sampling, temperature=temperature)), matcher(tokenizer, 'start: "yes" | "no"'), frozenset()
        )
        tokens, _ = run_to_end(sampler)
        assert without_end(tokenizer, tokens) in ("yes", "no")


def test_followers_are_cut_where_the_answer_has_no_room(tokenizer: Tokenizer) -> None:
    sampler = Sampler(spec(max_tokens=3), matcher(tokenizer, 'start: "abcdefghijklm"'), frozenset())
    picked = sampler.pick(noise(0))
    assert len(picked.tokens) == 3
    assert picked.finish == "length"
    assert "abcdefghijklm".startswith(tokenizer.decode(picked.tokens))


def test_an_answer_that_just_fits_says_stop(tokenizer: Tokenizer) -> None:
    def run(max_tokens: int) -> Picked:
        sampler = Sampler(spec(max_tokens=max_tokens), matcher(tokenizer, 'start: "abc"'), frozenset())
        return run_to_end(sampler)[1][-1]

    needed = len(run_to_end(Sampler(spec(), matcher(tokenizer, 'start: "abc"'), frozenset()))[0])
    assert run(needed).finish == "stop"
    assert run(needed - 1).finish == "length"


def test_the_opening_is_consumed_and_what_follows_goes_on_from_it(tokenizer: Tokenizer) -> None:
    opening = tokenizer.encode('{"colour":"b')
    asked = spec(prompt_tokens=2 + len(opening), opening_tokens=len(opening))
    sampler = Sampler(asked, matcher(tokenizer, json_grammar(COLOURS)), frozenset(tokenizer.eos_ids))
    sampler.extend_prompt((5, 6, *opening[:1]))
    sampler.extend_prompt(tuple(opening[1:]))
    tokens, _ = run_to_end(sampler)
    assert without_end(tokenizer, tokens) == 'lue"}'


def test_an_opening_that_does_not_begin_the_grammar_is_an_error(tokenizer: Tokenizer) -> None:
    opening = tokenizer.encode("no such thing")
    asked = spec(prompt_tokens=len(opening), opening_tokens=len(opening))
    sampler = Sampler(asked, matcher(tokenizer, 'start: "abc"'), frozenset())
    sampler.extend_prompt(tuple(opening))
    picked = sampler.pick(noise(0))
    assert picked.finish == "error"
    assert "opening" in picked.error
    assert picked.tokens == ()


def test_a_grammar_that_does_not_compile_is_an_error_of_the_request(tokenizer: Tokenizer) -> None:
    broken: Future[Any] = Future()
    broken.set_result(LLMatcher(tokenizer.grammar_view, LLMatcher.grammar_from_lark("start: missing"), log_level=0))
    picked = Sampler(spec(), broken, frozenset()).pick(noise(0))
    assert picked.finish == "error"
    assert "does not compile" in picked.error


# ---------------------------------------------------------------- logprobs


def test_logprobs_are_those_of_the_model_before_temperature_bias_and_grammar(tokenizer: Tokenizer) -> None:
    logits = noise(3)
    expected = np.array(logits) - np.log(np.exp(np.array(logits)).sum())
    sampling = Sampling(seed=0, temperature=0.5, logit_bias=((9, 30.0),))
    picked = Sampler(spec(sampling, top_logprobs=3), None, frozenset()).pick(logits)
    assert picked.tokens == (9,)
    assert len(picked.logprobs) == 1
    value = picked.logprobs[0]
    assert value.token == 9
    assert value.logprob == pytest.approx(expected[9], abs=1e-5)
    best = np.argsort(-expected)[:3]
    assert [token for token, _ in value.top] == list(best)
    assert [logprob for _, logprob in value.top] == pytest.approx(list(expected[best]), abs=1e-5)


def test_a_forced_token_has_logprob_zero_and_no_alternatives(tokenizer: Tokenizer) -> None:
    sampler = Sampler(spec(top_logprobs=2), matcher(tokenizer, 'start: "abcdefg"'), frozenset())
    picked = sampler.pick(noise(0))
    assert len(picked.logprobs) == len(picked.tokens) > 1
    assert len(picked.logprobs[0].top) == 2
    assert all((value.logprob, value.top) == (0.0, ()) for value in picked.logprobs[1:])


@pytest.mark.parametrize(("asked", "given"), [(None, 0), (0, 1)])
def test_logprobs_come_only_when_they_were_asked_for(asked: int | None, given: int) -> None:
    picked = Sampler(spec(top_logprobs=asked), None, frozenset()).pick(noise(0))
    assert len(picked.logprobs) == given
    assert all(value.top == () for value in picked.logprobs)


# ---------------------------------------------------------------- several rows at once


def mixed(tokenizer: Tokenizer) -> list[Sampler]:
    """Samplers with every knob, none alike."""
    samplings = [
        GREEDY,
        Sampling(seed=1, temperature=0.9),
        Sampling(seed=2, temperature=0.9, top_k=20),
        Sampling(seed=3, temperature=0.9, top_k=20, top_p=0.8),
        Sampling(seed=4, temperature=1.7, min_p=0.02, logit_bias=((9, 8.0), (7, -100.0))),
        Sampling(seed=5, temperature=0.0, repetition_penalty=1.4, presence_penalty=0.7),
        Sampling(seed=1, temperature=0.9, frequency_penalty=1.1),
    ]
    free = [Sampler(spec(each, top_logprobs=2), None, frozenset()) for each in samplings]
    grammars = [matcher(tokenizer, "start: /[a-z ]+/"), matcher(tokenizer, 'start: ("ab" | "cd" | "x")+')]
    bound = [Sampler(spec(samplings[at]), grammars[at], frozenset()) for at in (0, 1)]
    return [*free[:3], bound[0], *free[3:], bound[1]]


def test_rows_at_once_pick_what_each_picks_alone(tokenizer: Tokenizer) -> None:
    alone, together = mixed(tokenizer), mixed(tokenizer)
    for step in range(12):
        logits = mx.stack([noise(100 * step + at) * 3 for at in range(len(alone))])
        expected = [sampler.pick(logits[at]) for at, sampler in enumerate(alone)]
        assert pick_rows(together, logits) == expected


def test_a_row_whose_grammar_never_comes_or_breaks_costs_the_others_nothing(tokenizer: Tokenizer) -> None:
    never: Future[Any] = Future()
    never.set_exception(RuntimeError("the compiler died"))
    broken = matcher(tokenizer, "start: /[a-z]+/")
    logits = mx.stack([noise(at) for at in range(4)])
    rows = [Sampler(spec(), each, frozenset()) for each in (None, never, broken, matcher(tokenizer, "start: /[a-z]+/"))]
    broken.result().consume_token(0)  # not legal: it is in error from now on
    picked = pick_rows(rows, logits)
    assert picked[0] == Sampler(spec(), None, frozenset()).pick(logits[0])
    assert "the compiler died" in picked[1].error
    assert picked[2].finish == "error"
    assert picked[3].tokens and not picked[3].error


# ---------------------------------------------------------------- drafts


def answered(
    asked: SlotSpec, grammar: Future[Any] | None, guesses: Callable[[list[int]], tuple[int, ...]], count: int = 20
) -> tuple[list[Picked], list[int]]:
    """An answer whose logits depend on the position alone, with guesses of ours; its picks and tokens."""
    sampler = Sampler(asked, grammar, frozenset({255}))
    picks: list[Picked] = []
    tokens: list[int] = []
    while len(tokens) < count and not (picks and picks[-1].finish):
        drafts = guesses(tokens)
        logits = mx.stack([noise(len(tokens) + at) for at in range(len(drafts) + 1)])
        picks += pick_rows([sampler], logits, drafts=[drafts])
        tokens += picks[-1].tokens
    return picks, tokens


@pytest.mark.parametrize("lark", ["", "start: /[a-h]{5,30}/", 'start: ("abc" /[a-c]/)+'])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_drafts_give_the_tokens_logprobs_and_end_that_there_are_without(
    tokenizer: Tokenizer, lark: str, temperature: float
) -> None:
    sampling = Sampling(seed=3, temperature=temperature, repetition_penalty=1.2, frequency_penalty=0.4)
    asked = spec(sampling, max_tokens=17, top_logprobs=2)

    def begun() -> Future[Any] | None:
        return matcher(tokenizer, lark) if lark else None

    plain, tokens = answered(asked, begun(), lambda _: ())
    for right in (0, 1, 3, 99):
        picks, same = answered(
            asked, begun(), lambda so_far, right=right: (*tokens[len(so_far) :][:right], 7, 8)[: 16 - len(so_far)]
        )
        assert same == tokens
        assert picks[-1].finish == plain[-1].finish
        assert [each for pick in picks for each in pick.logprobs] == [each for pick in plain for each in pick.logprobs]
        assert sum(pick.drawn for pick in picks) == sum(pick.drawn for pick in plain)
    assert len(picks) < len(plain)


def test_guesses_end_before_an_end_token_before_what_is_illegal_and_where_one_token_is_left(
    tokenizer: Tokenizer,
) -> None:
    text = tuple(tokenizer.encode("abcabcabc"))

    def guessed(
        end: frozenset[int] = frozenset(), grammar: Future[Any] | None = None, **fields: Any
    ) -> tuple[int, ...]:
        sampler = Sampler(spec(prompt_tokens=len(text), **fields), grammar, end, drafts=True)
        sampler.extend_prompt(text)
        assert not sampler.begin()
        return sampler.guess()

    assert len(guessed()) == 32
    assert len(guessed(max_tokens=5)) == 4
    assert guessed(frozenset(text)) == ()
    assert guessed(grammar=matcher(tokenizer, "start: /[x-z]+/")) == ()
    assert guessed(drafts=False) == ()


def test_a_draw_does_not_turn_on_the_last_bits_of_the_logits() -> None:
    width, count = 50_000, 300
    logits = 3 * mx.random.normal((1, width), key=mx.random.key(1))
    other = logits + 1e-6 * mx.random.normal((1, width), key=mx.random.key(2))
    sampling = Sampling(seed=100, temperature=0.9)
    drew = [[int(drawn(each, [sampling], [at]).item()) for at in range(count)] for each in (logits, other)]
    assert drew[0] == drew[1]
    assert len(set(drew[0])) > count / 2, "they are draws, not the likeliest token"


def test_draws_are_as_frequent_as_they_are_likely() -> None:
    shares = (0.5, 0.3, 0.15, 0.05)
    logits = mx.log(mx.array([shares]))
    drew = [int(drawn(logits, [Sampling(seed=seed)], [7]).item()) for seed in range(4000)]
    for token, share in enumerate(shares):
        assert abs(drew.count(token) / len(drew) - share) < 0.03
