"""Numbers from a noisy machine: contestants take turns, each round gives one ratio, the median round counts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypeVar

Item = TypeVar("Item")


def turns(contestants: Sequence[Item], rounds: int) -> list[list[Item]]:
    """Who runs when: every round has each contestant once, and each begins in turn.

    A drift of the machine then hurts all alike: A B C, B C A, C A B, ...
    """
    count = len(contestants)
    return [[contestants[(start + i) % count] for i in range(count)] for start in range(rounds)]


def shares(rounds: int, starts_max: int) -> list[int]:
    """`rounds` spread evenly over up to `starts_max` starts, at least one round each."""
    starts = min(rounds, starts_max)
    return [rounds * (i + 1) // starts - rounds * i // starts for i in range(starts)]


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' own ratios: what slows a whole round down cancels out.

    Raises ValueError unless there is one value of each for every round, and at least one round.
    """
    if not over or len(over) != len(under):
        raise ValueError("a paired ratio wants as many values over as under, at least one")
    return median(a / b for a, b in zip(over, under, strict=True))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("a percentile wants at least one value")
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]
