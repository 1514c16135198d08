"""The line of requests that wait, and the memory that is reserved for those that run."""

from __future__ import annotations

from ringleader.shard.waiting import QUEUE_MAX, Asked, Line, Reservations
from ringleader.values import Sampling, SlotSpec


def asked(name: str, prompt_tokens: int = 3, max_tokens: int = 10, resumed: int = 0) -> Asked:
    spec = SlotSpec(Sampling(seed=0), max_tokens=max_tokens, prompt_tokens=prompt_tokens, resumed_tokens=resumed)
    return Asked(name, tuple(range(prompt_tokens + resumed)), spec)


def test_who_came_first_is_first_and_who_leaves_is_forgotten() -> None:
    line = Line()
    assert line.first() is None
    assert all(line.join(asked(name)) for name in "abc")
    assert line.leave("a") and not line.leave("a")
    first = line.first()
    assert first is not None and (first.request, len(line), "a" in line) == ("b", 2, False)


def test_a_full_line_takes_nobody() -> None:
    line = Line()
    assert all(line.join(asked(str(number))) for number in range(QUEUE_MAX))
    assert not line.join(asked("one more"))


def test_what_was_answered_before_counts_once() -> None:
    assert asked("new", 3, 10).need_tokens == 13
    assert asked("resumed", 3, 10, resumed=4).need_tokens == 13


def test_rows_of_a_batch_are_as_long_as_its_longest() -> None:
    memory = Reservations(30)
    for slot, tokens in ((1, 4), (2, 10), (3, 6)):
        memory.reserve(slot, tokens)
    assert memory.padding([1, 2, 3]) == 10
    assert memory.fit(10, []) and not memory.fit(11, [])
    assert memory.fit(0, [[1, 2, 3]]) and not memory.fit(1, [[1, 2, 3]])
    memory.let_go(2)
    assert memory.fit(20, [])
