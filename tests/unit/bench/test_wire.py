"""How far two tellings of the next token are apart."""

from __future__ import annotations

import math

import pytest

from ringleader.bench.wire import divergence
from ringleader.values import TokenLogprob


def told(*probabilities: float) -> TokenLogprob:
    top = tuple((token, math.log(each)) for token, each in enumerate(probabilities))
    return TokenLogprob(0, top[0][1], top)


def test_the_same_probabilities_do_not_diverge() -> None:
    assert divergence(told(0.5, 0.3), told(0.5, 0.3)) == 0


def test_others_diverge_as_much_as_the_definition_says() -> None:
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert divergence(told(0.5, 0.5), told(0.25, 0.75)) == pytest.approx(expected, rel=1e-6)


def test_what_only_one_side_tells_of_counts_as_the_rest() -> None:
    expected = 0.6 * math.log(0.6 / 0.5) + 0.4 * math.log(0.4 / 0.5)
    assert divergence(told(0.6, 0.4), told(0.5)) == pytest.approx(expected, rel=1e-6)
