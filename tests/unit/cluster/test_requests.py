from __future__ import annotations

import math

from ringleader.cluster.requests import QUEUE_MAX, RequestTable, overdue_error
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
