from __future__ import annotations

import math

from ringleader.cluster.requests import AGAIN_MAX_S, AGAIN_UNKNOWN_S, QUEUE_MAX, RequestTable, overdue_error
from ringleader.errors import Busy, DeadlinePassed
from ringleader.values import ModelId, PlanHash, RequestId
from tests.unit.cluster.builders import arrival, model


def test_a_request_ends_once_and_is_then_unknown() -> None:
    table = RequestTable()
    assert table.accept(arrival("r"), 0.0) is None
    assert table.end(RequestId("r")) is not None
    assert table.end(RequestId("r")) is None
    assert RequestId("r") not in table


def test_a_full_table_says_busy_and_what_to_do() -> None:
    table = RequestTable()
    for number in range(QUEUE_MAX):
        assert table.accept(arrival(str(number)), 0.0) is None
    error = table.accept(arrival("one too many"), 0.0)
    assert isinstance(error, Busy)
    assert "try again" in str(error)
    table.end(RequestId("0"))
    assert table.accept(arrival("one too many"), 0.0) is None


def test_who_is_refused_is_told_when_a_place_is_free_by_the_rate_at_which_answers_ended() -> None:
    table = RequestTable(limit=4)
    for number in range(4):
        table.accept(arrival(str(number)), 0.0)
    first = table.accept(arrival("x"), 0.0)
    assert isinstance(first, Busy) and first.retry_after_s == AGAIN_UNKNOWN_S
    for number in range(4):
        table.end(RequestId(str(number)), now=10.0 + 3 * number)
        table.accept(arrival(f"next {number}"), 10.0 + 3 * number)
    waits = [error.retry_after_s for _ in range(3) if isinstance(error := table.accept(arrival("y"), 22.0), Busy)]
    assert waits == [3.0, 6.0, 9.0], "one answer ends every three seconds, and each refused one is behind the others"
    much_later = table.accept(arrival("y"), 10_000.0)
    assert isinstance(much_later, Busy) and much_later.retry_after_s == AGAIN_MAX_S


def test_a_request_that_arrives_too_late_or_with_a_deadline_of_no_number_is_refused() -> None:
    for deadline in (4.9, 5.0, math.nan):
        assert isinstance(RequestTable().accept(arrival("r", deadline=deadline), 5.0), DeadlinePassed)


def test_waiting_and_running_are_told_apart_by_model() -> None:
    table = RequestTable()
    for name in "abc":
        table.accept(arrival(name, model("x" if name != "c" else "y")), 0.0)
    table.waiting(ModelId("x"))[0].plan = PlanHash("p")
    assert [r.request for r in table.running(ModelId("x"))] == ["a"]
    assert [r.request for r in table.waiting(ModelId("x"))] == ["b"]
    assert table.counts() == (2, 1)


def test_an_overdue_request_is_told_where_its_time_went() -> None:
    table = RequestTable()
    table.accept(arrival("r", deadline=10.0), 1.0)
    assert table.overdue(9.9) == []
    (late,) = table.overdue(10.0)
    assert "after 9 s, waiting for tiny to be ready" in str(overdue_error(late, 10.0))
    late.plan = PlanHash("p")
    assert "while it was being answered" in str(overdue_error(late, 10.0))
