from __future__ import annotations

from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.adoption import ADOPT_GRACE_S, Foundlings
from tests.unit.cluster.builders import node
from tests.unit.cluster.words_of import assigned, report

A, B = node("a").node, node("b").node
FIRST, SECOND = assigned("a", "b", term=m.Term(1, A)), assigned("a", "b", serial=2, term=m.Term(2, A))


def test_a_plan_is_due_when_every_shard_of_it_was_reported() -> None:
    found = Foundlings()
    found.note(A, [report(FIRST, 0)], 0.0)
    assert (found.due(0.1), found.waiting()) == ([], True)
    found.note(B, [report(FIRST, 1, "loading")], 0.2)
    (due,) = found.due(0.2)
    assert (due.plan, due.whole, due.ready) == (FIRST.plan.hash, True, False)


def test_a_plan_that_does_not_become_whole_is_due_after_the_grace() -> None:
    found = Foundlings()
    found.note(A, [report(FIRST, 0)], 0.0)
    found.note(A, [report(FIRST, 0)], 1.0)
    assert found.due(ADOPT_GRACE_S - 0.1) == []
    (due,) = found.due(ADOPT_GRACE_S)
    assert not due.whole


def test_of_two_plans_the_whole_one_comes_first_then_that_of_the_higher_term() -> None:
    found = Foundlings()
    found.note(A, [report(FIRST, 0), report(SECOND, 0)], 0.0)
    found.note(B, [report(FIRST, 1)], 0.0)
    assert [each.plan for each in found.due(ADOPT_GRACE_S)] == [FIRST.plan.hash, SECOND.plan.hash]
    found.note(B, [report(FIRST, 1), report(SECOND, 1)], 0.0)
    assert [each.plan for each in found.due(0.0)] == [SECOND.plan.hash, FIRST.plan.hash]


def test_what_a_node_does_not_report_any_more_is_forgotten() -> None:
    found = Foundlings()
    found.note(A, [report(FIRST, 0)], 0.0)
    found.note(A, [], 0.1)
    assert (found.due(10.0), found.all(), found.waiting()) == ([], [], False)


def test_a_shard_where_its_plan_has_none_is_not_found() -> None:
    found = Foundlings()
    found.note(B, [report(FIRST, 0)], 0.0)
    found.note(A, [replace(report(FIRST, 0), index=7)], 0.0)
    assert found.all() == []
