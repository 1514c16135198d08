from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.followup import by_place, follow_up
from ringleader.cluster.rings import Ring
from tests.unit.cluster.builders import node
from tests.unit.cluster.words_of import assigned, report

A = assigned("a", "b")
B = node("b").node
PLAN = A.plan.hash


def started() -> Ring:
    ring = Ring(A.plan, {}, 0.0)
    ring.start(0.0)
    return ring


def hear(ring: Ring, *reports: m.ShardReport) -> tuple[list[m.Event], list[m.Effect]]:
    return follow_up(ring, B, by_place(reports))


def test_an_order_that_no_report_shows_is_sent_again() -> None:
    ring = started()
    news, orders = hear(ring)
    assert news == []
    assert orders == [m.StartShard(B, A.plan, 1)]


def test_progress_and_readiness_are_news_once() -> None:
    ring = started()
    loading = m.ShardReport(A, 1, 1, "loading", progress=0.5)
    assert hear(ring, loading) == ([m.ShardMadeProgress(PLAN, 1, 0.5)], [])
    ring.shard_progress(m.ShardMadeProgress(PLAN, 1, 0.5), 1.0)
    assert hear(ring, loading) == ([], [])
    news, _ = hear(ring, report(A, 1))
    assert isinstance(news[0], m.ShardBecameReady)
    ring.shard_ready(news[0], 2.0)
    assert hear(ring, report(A, 1)) == ([], [])


def test_a_shard_that_was_there_and_is_not_any_more_has_died() -> None:
    ring = started()
    hear(ring, report(A, 1, "loading"))
    news, orders = hear(ring)
    assert (len(news), orders) == (1, [])
    assert isinstance(news[0], m.ShardDied)


def test_a_death_is_believed_of_its_own_attempt_only() -> None:
    ring = started()
    news, _ = hear(ring, report(A, 1, "dead", attempt=1, reason="signal 9"))
    assert news == [m.ShardDied(PLAN, 1, "signal 9")]
    ring.shard_died(m.ShardDied(PLAN, 1, "signal 9"), 1.0)
    ring.start(2.0)
    news, orders = hear(ring, report(A, 1, "dead", attempt=1))
    assert news == []
    assert [each.attempt for each in orders if isinstance(each, m.StartShard)] == [2]


def test_an_attempt_that_an_earlier_master_counted_further_is_passed() -> None:
    ring = started()
    _, orders = hear(ring, report(A, 1, "dead", attempt=4))
    assert [each.attempt for each in orders if isinstance(each, m.StartShard)] == [5]


def test_a_shard_that_should_be_gone_is_told_again() -> None:
    ring = started()
    hear(ring, report(A, 1))
    ring.stop(1.0)
    assert hear(ring, report(A, 1)) == ([], [m.StopShard(B, PLAN, 1)])
    assert hear(ring, report(A, 1, "stopping")) == ([], [])
    news, _ = hear(ring)
    assert isinstance(news[0], m.ShardDied)


def test_what_another_node_holds_is_not_this_report_s_business() -> None:
    ring = started()
    _, orders = follow_up(ring, node("z").node, {})
    assert orders == []
