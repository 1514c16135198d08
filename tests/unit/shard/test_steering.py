"""Answers of models that never want to end, at every budget: complete where they can be, cut where they cannot."""

from __future__ import annotations

import json
from functools import cache

import jsonschema
import pytest

from tests.unit.shard.stubborn import (
    SHORTEST,
    a_call,
    answer,
    call_rule,
    closer,
    marker,
    matcher_of,
    tastes,
    text_of,
    vocabulary,
)

WEATHER = SHORTEST["two values"][0]
THINK_OPEN, THINK_CLOSE = marker("<think>"), marker("</think>")
CLOSE_IDS = (vocabulary().token_id("</think>") or -1,)
GAP = "GAP: /[ \\n]{1,4}/"
THINKING = f"start: /(?s:.*)/ {THINK_CLOSE} GAP? call\n{GAP}\n{call_rule(WEATHER)}"
MAY_THINK = f"start: think GAP? call | call\nthink: {THINK_OPEN} /(?s:.*)/ {THINK_CLOSE}\n{GAP}\n{call_rule(WEATHER)}"
SEVERAL = f'start: call ("\\n" call){{0,15}}\n{call_rule(WEATHER)}'
AUTO = f'start: TEXT | TEXT call ("\\n" call){{0,15}}\nTEXT: /(?s:.*)/\n{call_rule(WEATHER)}'
RAW = f"""start: {marker("<tool_call>")} "\\n<function=f>\\n<parameter=code>\\n" code n {marker("</tool_call>")}
code[lazy]: /(?s:.*)\\n<\\/parameter>\\n/
n: "<parameter=n>\\n" %json {{"type": "integer"}} "\\n</parameter>\\n</function>\\n"
"""
TASTES = sorted(tastes())


@cache
def shortest(grammar: str, closers: tuple[tuple[int, ...], ...] = ()) -> int:
    """Tokens of the shortest ending that a long search finds."""
    found, limit = None, 120
    while ending := closer().ending(matcher_of(grammar), limit, closers, steps=2000):
        found, limit = ending, len(ending) - 1
    assert found
    return len(found)


def is_complete(grammar: str, tokens: tuple[int, ...]) -> bool:
    """Whether the answer fulfils the grammar; every token of it must be legal."""
    matcher = matcher_of(grammar)
    assert matcher.validate_tokens(list(tokens)) == len(tokens), text_of(tokens)
    matcher.consume_tokens(list(tokens))
    return bool(matcher.is_accepting())


def arguments_of(tokens: tuple[int, ...]) -> object:
    text = text_of(tokens).split("<tool_call>")[1].split("</tool_call>")[0]
    return json.loads(text)["arguments"]


# ---------------------------------------------------------------- what is demanded


@pytest.mark.parametrize("name", SHORTEST)
def test_a_demanded_call_is_complete_at_every_budget_that_allows_one_and_length_at_the_others(name: str) -> None:
    schema = SHORTEST[name][0]
    grammar = a_call(schema)
    fewest = shortest(grammar)
    for budget in [1, fewest // 2, *range(fewest - 2, fewest + 4), fewest + 23, fewest + 60]:
        taste = TASTES[budget % len(TASTES)]
        tokens, finish = answer(grammar, budget, tastes()[taste])
        complete = is_complete(grammar, tokens)
        assert complete == (budget >= fewest), (taste, budget, text_of(tokens))
        assert finish == ("stop" if complete else "length"), (taste, budget)
        if complete:
            jsonschema.validate(arguments_of(tokens), schema)


@pytest.mark.parametrize("taste", TASTES)
def test_no_taste_keeps_a_call_from_its_end(taste: str) -> None:
    grammar = a_call(WEATHER)
    for budget in range(shortest(grammar), shortest(grammar) + 20, 3):
        tokens, finish = answer(grammar, budget, tastes()[taste])
        assert finish == "stop" and is_complete(grammar, tokens)


def test_without_steering_the_same_models_are_cut() -> None:
    tokens, finish = answer(a_call(WEATHER), 60, tastes()["letters"], steered=False)
    assert finish == "length" and not is_complete(a_call(WEATHER), tokens)


def test_a_budget_that_allows_no_call_is_spent_as_if_nobody_steered() -> None:
    grammar = a_call(WEATHER)
    for budget in range(1, shortest(grammar), 4):
        assert answer(grammar, budget, tastes()["noise"]) == answer(grammar, budget, tastes()["noise"], steered=False)


def test_a_model_that_ends_in_time_is_not_touched() -> None:
    grammar = a_call(WEATHER)
    free = answer(grammar, 400, tastes()["noise"], steered=False)
    assert free[1] == "stop"
    for budget in range(len(free[0]), len(free[0]) + 10):
        assert answer(grammar, budget, tastes()["noise"]) == free


def test_all_of_the_budget_is_the_models_until_the_ending_needs_it() -> None:
    tokens, _ = answer(a_call(WEATHER), 80, tastes()["letters"])
    free, _ = answer(a_call(WEATHER), 80, tastes()["letters"], steered=False)
    same = next(at for at, (one, other) in enumerate(zip(tokens, free, strict=True)) if one != other)
    assert len(tokens) == 80 and same >= 80 - 10


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_forced_followers_change_nothing(temperature: float) -> None:
    for n, (grammar, budget) in enumerate([(a_call(WEATHER), 30), (SEVERAL, 70), (RAW, 50), (THINKING, 60)] * 2):
        taste = tastes()[TASTES[n % len(TASTES)]]
        with_them = answer(grammar, budget + n, taste, temperature=temperature)
        without = answer(grammar, budget + n, taste, temperature=temperature, followers=False)
        assert with_them == without


def test_an_opening_is_not_counted_as_generated() -> None:
    grammar = a_call(WEATHER)
    opening = tuple(matcher_of(grammar).compute_ff_tokens())
    fewest = shortest(grammar) - len(opening)
    for budget in range(1, fewest + 5, 2):
        tokens, finish = answer(grammar, budget, tastes()["letters"], opening=opening)
        assert (finish == "stop") == is_complete(grammar, opening + tokens) == (budget >= fewest)


def test_a_raw_string_is_ended_by_its_terminator_in_time() -> None:
    terminator = closer().tokens("\n</parameter>\n")
    fewest = shortest(RAW, (terminator,))
    for budget in range(fewest - 2, fewest + 20, 2):
        tokens, finish = answer(RAW, budget, tastes()[TASTES[budget % len(TASTES)]])
        assert (finish == "stop") == is_complete(RAW, tokens) == (budget >= fewest), text_of(tokens)


# ---------------------------------------------------------------- several calls


def test_a_further_call_begins_only_where_it_can_be_finished() -> None:
    one = shortest(SEVERAL)
    two = shortest(f'start: call "\\n" call\n{call_rule(WEATHER)}')
    for budget in range(one, two + 20, 3):
        tokens, finish = answer(SEVERAL, budget, tastes()["further items"])
        assert finish == "stop" and is_complete(SEVERAL, tokens), (budget, text_of(tokens))
        assert text_of(tokens).count("</tool_call>") == (1 if budget < two else 2)


def test_least_calls_are_all_complete_or_the_answer_is_cut() -> None:
    grammar = f'start: call ("\\n" call){{2,4}}\n{call_rule(WEATHER)}'
    fewest = shortest(grammar)
    for budget in (fewest - 1, fewest, fewest + 1, fewest + 15):
        tokens, finish = answer(grammar, budget, tastes()["letters"])
        assert (finish == "stop") == is_complete(grammar, tokens) == (budget >= fewest)


# ---------------------------------------------------------------- reasoning


@pytest.mark.parametrize("grammar", [THINKING, MAY_THINK], ids=["inside it", "perhaps"])
def test_reasoning_ends_in_time_for_the_call(grammar: str) -> None:
    fewest = shortest(grammar)
    for budget in [*range(fewest, fewest + 12), 60, 100]:
        taste = tastes()[TASTES[budget % len(TASTES)]]
        tokens, finish = answer(grammar, budget, taste, think_close=CLOSE_IDS, think_reserve=budget // 2)
        assert finish == "stop" and is_complete(grammar, tokens), (budget, text_of(tokens))


def test_the_reserve_is_left_for_the_call() -> None:
    """Reasoning takes what the budget has over the reserve and the shortest call (or one that is as good)."""
    fewest = shortest(THINKING)
    for reserve in (0, 10, 30):
        tokens, _ = answer(THINKING, 90, tastes()["letters"], think_close=CLOSE_IDS, think_reserve=reserve)
        assert 90 - fewest - reserve - tokens.index(CLOSE_IDS[0]) in (0, 1)


def test_a_reserve_that_cannot_be_had_leaves_what_there_is_to_the_call() -> None:
    fewest = shortest(THINKING)
    for budget in range(fewest, fewest + 10):
        tokens, finish = answer(THINKING, budget, tastes()["letters"], think_close=CLOSE_IDS, think_reserve=256)
        assert finish == "stop" and CLOSE_IDS[0] in tokens[:2]


def test_the_reserve_does_not_shorten_a_call_without_reasoning() -> None:
    plain = answer(MAY_THINK, 60, tastes()["letters"], think_close=CLOSE_IDS)
    reserved = answer(MAY_THINK, 60, tastes()["letters"], think_close=CLOSE_IDS, think_reserve=20)
    assert "<think>" not in text_of(plain[0]) and reserved == plain


def test_reasoning_that_is_closed_by_text_ends_in_time_too() -> None:
    grammar = f'start: reasoning "\\n" call\nreasoning[lazy]: /(?s:.*)\\[\\/T\\]/\n{call_rule(WEATHER)}'
    close = closer().tokens("[/T]")
    fewest = shortest(grammar, (close,))
    for budget in range(fewest - 2, fewest + 30, 3):
        tokens, finish = answer(grammar, budget, tastes()["letters"], think_close=close, think_reserve=8)
        assert (finish == "stop") == is_complete(grammar, tokens) == (budget >= fewest)


# ---------------------------------------------------------------- what is not demanded


@pytest.mark.parametrize("taste", ["letters", "digits", "noise"])
def test_free_text_is_cut_as_ever(taste: str) -> None:
    for budget in range(1, 40, 3):
        steered = answer(AUTO, budget, tastes()[taste], demanded=False)
        assert steered == answer(AUTO, budget, tastes()[taste], demanded=False, steered=False)


def test_reasoning_before_an_answer_that_nobody_forces_is_cut_as_ever() -> None:
    grammar = f"start: think TEXT | TEXT\nTEXT: /(?s:.*)/\nthink: {THINK_OPEN} /(?s:.*)/ {THINK_CLOSE}"
    opening = (vocabulary().token_id("<think>") or -1,)
    for budget in range(1, 40, 3):
        how = {"demanded": False, "opening": opening, "think_close": CLOSE_IDS, "think_reserve": 10}
        steered = answer(grammar, budget, tastes()["letters"], **how)
        assert steered[1] == "length"
        assert steered == answer(grammar, budget, tastes()["letters"], steered=False, **how)


def test_a_call_that_the_model_began_by_itself_is_finished_where_it_fits_and_cut_where_it_does_not() -> None:
    begun = (*vocabulary().encode("I think"), vocabulary().token_id("<tool_call>") or -1)
    fewest = shortest(a_call(WEATHER)) - 1
    for budget in range(1, fewest + 10):
        tokens, _ = answer(AUTO, budget, tastes()["letters"], demanded=False, opening=begun)
        assert is_complete(AUTO, begun + tokens) == (budget >= fewest), (budget, text_of(tokens))


def test_a_demanded_answer_that_ends_just_with_its_budget_is_no_cut_one() -> None:
    """It could go on with a further call, but nothing that was asked for is missing."""
    one = shortest(SEVERAL)
    assert answer(SEVERAL, one, tastes()["letters"])[1] == "stop"
    begun = (vocabulary().token_id("<tool_call>") or -1,)
    assert answer(AUTO, one - 1, tastes()["letters"], demanded=False, opening=begun)[1] == "length"
