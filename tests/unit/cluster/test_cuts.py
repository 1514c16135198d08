from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from ringleader.cluster.costs import Footprint
from ringleader.cluster.cuts import cut, even, order_that_fits
from ringleader.values import ModelCosts, ModelId


def footprint(sizes: list[int], head: int, tail: int) -> Footprint:
    costs = ModelCosts(ModelId("m"), "d", "f", tuple(sizes), head, tail, (0,) * len(sizes), 1, 1)
    return Footprint(costs, 1)


def every_cut(layers: int, groups: int) -> list[list[tuple[int, int]]]:
    ways = combinations(range(1, layers), groups - 1)
    return [list(zip((0, *inner), (*inner, layers), strict=True)) for inner in ways]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_a_cut_is_as_good_as_the_best_of_all_cuts(sizes: list[int], rooms: list[int]) -> None:
    def weigh(group: int, start: int, stop: int) -> float | None:
        load = sum(sizes[start:stop])
        return load * load / rooms[group] if load <= rooms[group] else None

    def badness(cuts: list[tuple[int, int]]) -> float | None:
        weights = [weigh(group, *run) for group, run in enumerate(cuts)]
        return None if None in weights else sum(w for w in weights if w is not None)

    allowed = [b for cuts in every_cut(len(sizes), len(rooms)) if (b := badness(cuts)) is not None]
    found = cut(len(sizes), len(rooms), weigh)
    if found is None:
        assert not allowed
    else:
        assert badness(found) is not None
        assert abs((badness(found) or 0.0) - min(allowed)) < 1e-9


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
)
def test_an_order_is_found_whenever_there_is_one(sizes: list[int], head: int, tail: int, rooms: list[int]) -> None:
    size = footprint(sizes, head, tail)

    def holds(order: tuple[int, ...]) -> bool:
        at = 0
        for place in order:
            at = size.reach(at, rooms[place])
        return at == len(sizes)

    found = order_that_fits(size, rooms)
    assert (found is not None) == any(holds(order) for order in permutations(range(len(rooms))))
    assert found is None or holds(tuple(found))


def test_even_parts_differ_by_one_layer_and_the_longer_come_first() -> None:
    assert even(3, 13, 3) == [(3, 7), (7, 10), (10, 13)]
    assert even(0, 30, 2) == [(0, 15), (15, 30)]
