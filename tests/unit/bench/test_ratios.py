from __future__ import annotations

import pytest

from ringleader.bench.ratios import paired_ratio, percentile, shares, turns


def test_every_round_has_each_contestant_once_and_each_begins_as_often() -> None:
    rounds = turns("abc", 6)
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert sorted(each[0] for each in rounds) == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize(("rounds", "expected"), [(1, [1]), (2, [1, 1]), (9, [3, 3, 3]), (10, [3, 3, 4])])
def test_rounds_are_spread_over_the_starts_and_none_is_lost(rounds: int, expected: list[int]) -> None:
    assert shares(rounds, starts_max=3) == expected


def test_a_machine_that_slows_down_for_whole_rounds_changes_no_ratio() -> None:
    slowness = [1.0, 7.0, 3.0, 1.5]
    assert paired_ratio([1.1 * s for s in slowness], [1.0 * s for s in slowness]) == pytest.approx(1.1)


def test_one_disturbed_round_of_many_does_not_count() -> None:
    assert paired_ratio([1.0, 50.0, 1.0], [1.0, 1.0, 1.0]) == 1.0


@pytest.mark.parametrize(("over", "under"), [([], []), ([1.0], []), ([1.0], [1.0, 2.0])])
def test_values_that_are_not_in_pairs_give_no_ratio(over: list[float], under: list[float]) -> None:
    with pytest.raises(ValueError, match="as many"):
        paired_ratio(over, under)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(v) for v in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 99, 100)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([4.0], 99) == 4.0
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 50)
