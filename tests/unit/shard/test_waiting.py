"""The line of requests that wait, and the memory that is reserved for those that run."""

from __future__ import annotations

from ringleader.shard.waiting import QUEUE_MAX, YIELDS, Asked, Line, Reservations
from ringleader.values import Sampling, SlotSpec


def asked(name: str, prompt_tokens: int = 3, max_tokens: int = 10, priority: int = 0) -> Asked:
    spec = SlotSpec(Sampling(seed=0), max_tokens=max_tokens, prompt_tokens=prompt_tokens)
    return Asked(name, list(range(prompt_tokens)), spec, priority)


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


def test_a_place_is_kept_and_each_step_of_priority_lets_so_many_pass() -> None:
    line = Line()
    bulk, early, late = asked("bulk", priority=1), asked("early"), asked("late")
    assert line.join(bulk) and line.join(early)
    for number in range(YIELDS):
        assert line.join(asked(str(number)))
    assert line.join(late)
    order = []
    while (first := line.first()) is not None:
        order.append(first.request)
        line.leave(first.request)
    assert order.index("early") < order.index("bulk") < order.index("late")
    assert order.index("bulk") - order.index("early") == YIELDS - 1
    line.join(asked("new"))
    line.rejoin(early)
    assert line.first() is early, "who gave its slot up comes before who came later"


def test_nobody_passes_one_whose_segments_are_still_in_the_ring() -> None:
    line = Line()
    first, second = asked("first"), asked("second")
    line.join(first)
    line.join(second)
    first.flying = 1
    assert line.first() is None
    first.flying = 0
    assert line.first() is first


def test_a_sequence_gets_room_for_a_while_never_more_than_it_may_use() -> None:
    memory = Reservations(1000, step=10, ahead=5)
    assert [memory.size(tokens, 58) for tokens in (3, 5, 6, 52, 58)] == [10, 10, 20, 60, 60]
    assert memory.whole(asked("a", 12, 20)) == 40


def test_rows_of_a_batch_are_as_long_as_its_longest() -> None:
    memory = Reservations(30, ahead=0)
    for slot, tokens in ((1, 4), (2, 10), (3, 6)):
        memory.reserve(slot, tokens, 20)
    assert memory.padding([1, 2, 3]) == 10
    assert memory.fit(10, []) and not memory.fit(11, [])
    assert memory.fit(0, [[1, 2, 3]]) and not memory.fit(1, [[1, 2, 3]])
    memory.let_go(2)
    assert memory.fit(20, [])


def test_who_runs_keeps_room_to_grow_and_who_gave_its_slot_up_waits_for_more_of_it() -> None:
    memory = Reservations(100, ahead=5)
    memory.reserve(1, 60, 100)
    newcomer = asked("new", 20, 50)
    assert memory.admits(newcomer, [])  # 65 and 25, and 5 more for who runs
    again = asked("again", 20, 50)
    again.preempted = 1
    assert not memory.admits(again, [])
    assert memory.admits(again, [], freed=20)
    memory.reserve(1, 60, 62)
    assert memory.admits(asked("larger", 33, 50), []), "an answer near its end wants no more"


def test_states_of_a_slot_count_beside_its_tokens_but_keep_nobody_out_who_would_be_alone() -> None:
    memory = Reservations(100, ahead=5, slot=40)
    memory.reserve(1, 10, 50)
    assert (memory.of(1), memory.room(1)) == (55, 15)
    assert memory.fit(45, []) and not memory.fit(46, [])
    assert memory.whole(asked("a", 50, 50)) == 100
