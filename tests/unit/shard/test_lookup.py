"""Guesses are what followed before: after the longest run that agrees, and on along what is being repeated."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ringleader.shard.lookup import SIZES, Chance, Lookup

TOKENS = st.lists(st.integers(0, 9), max_size=60)


def lookup(*tokens: int, prediction: tuple[int, ...] = (), prompt: int = 0) -> Lookup:
    found = Lookup(prompt, prediction)
    found.extend(tokens)
    return found


def test_what_followed_the_last_tokens_before_is_guessed() -> None:
    assert lookup(1, 2, 3, 4, 5, 6, 1, 2).guess(3) == (3, 4, 5)


def test_what_never_stood_before_gives_no_guess() -> None:
    assert lookup().guess(5) == ()
    assert lookup(1, 2, 3, 4).guess(5) == ()
    assert lookup(1, 2, 3, 9, 2).guess(5) == (), "one token alone says too little"
    assert lookup(1, 2, 1, 2).guess(0) == ()


def test_a_longer_run_is_believed_before_a_later_one() -> None:
    long_ago = (1, 2, 3, 4, 5, 6, 70)
    lately = (9, 5, 6, 80)
    assert lookup(*long_ago, *lately, 1, 2, 3, 4, 5, 6).guess(1) == (70,)


def test_of_places_that_agree_as_long_the_last_one_counts() -> None:
    assert lookup(1, 2, 70, 1, 2, 80, 1, 2).guess(1) == (80,)


def test_a_text_that_repeats_itself_is_guessed_beyond_its_end() -> None:
    assert lookup(1, 2, 3, 1, 2, 3).guess(7) == (1, 2, 3, 1, 2, 3, 1)


def test_what_is_being_repeated_goes_on_though_its_words_stood_elsewhere_later() -> None:
    """A file is copied: in it a line stands twice, and each time another one follows."""
    line = (1, 2, 3, 4, 5, 6)
    file = (90, *line, 91, *line, 92, *line, 93)
    copy = lookup(*file, 50, 51, 90, 1)
    for before, after in pairwise(file[1:]):
        guessed = copy.guess(4)
        copy.extend((after,))
        if before > 90 or after > 90:
            continue
        assert guessed[0] == after
    # The first line's end: a lookup of its last six tokens alone would find the last line's.
    copy = lookup(*file, 50, 51, 90)
    copy.extend(line[:2])
    assert copy.guess(9) == (3, 4, 5, 6, 91, 1, 2, 3, 4)
    copy.extend(line[2:])
    assert copy.guess(1) == (91,)


def test_a_prediction_is_guessed_from_the_answer_s_first_token_on() -> None:
    expected = (7, 8, 9, 10)
    assert lookup(1, 2, 3, prediction=expected, prompt=3).guess(9) == ()
    answer = lookup(1, 2, 3, 7, prediction=expected, prompt=3)
    assert answer.guess(9) == (8, 9, 10), "and ends where it ends"
    answer.extend((8, 50))
    assert answer.guess(9) == (), "the answer went its own way"
    answer.extend((8, 9))
    assert answer.guess(9) == (10,), "and came back"


def test_a_prediction_is_believed_before_the_prompt() -> None:
    assert lookup(1, 2, 70, 50, 1, 2, prediction=(1, 2, 80), prompt=4).guess(1) == (80,)


@given(tokens=TOKENS, prediction=TOKENS, prompt=st.integers(0, 20), most=st.integers(0, 40))
def test_guesses_stood_after_a_run_that_agrees(
    tokens: list[int], prediction: list[int], prompt: int, most: int
) -> None:
    whole, piecewise = Lookup(prompt, prediction), Lookup(prompt, prediction)
    whole.extend(tokens)
    for at, token in enumerate(tokens):
        piecewise.extend((token,))
        if at < len(tokens) - 1 and at % 3 == 0:
            piecewise.guess(4)  # to guess on the way changes nothing of what is known
    found = whole.guess(most)
    assert len(found) <= most
    if found and len(tokens) > prompt + len(prediction):
        run = [*tokens[-min(SIZES) :], found[0]]
        texts = (tokens, prediction)
        assert any(text[at : at + len(run)] == run for text in texts for at in range(len(text)))


def test_a_chance_follows_what_came_true_and_forgets_what_did_not() -> None:
    chance = Chance()
    begin = chance.value
    chance.saw(8, 8)
    assert chance.value > begin
    for _ in range(20):
        chance.saw(4, 0)
    low = chance.value
    assert low < 0.15
    for _ in range(800):
        chance.saw(0, 0)
    assert low < begin - 0.1 < chance.value
