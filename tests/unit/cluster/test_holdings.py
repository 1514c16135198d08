from __future__ import annotations

from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.holdings import DEAD_REPORTED_S, PLACES_MAX, Holdings
from ringleader.values import Draft, PlanHash
from tests.unit.cluster.builders import MB, model
from tests.unit.cluster.words_of import FIRST, assigned

A = assigned("a", "b")
PLACE = (A.plan.hash, 0)


def order(
    a: m.Assignment = A, index: int = 0, attempt: int = 1, instead_of: tuple[PlanHash, int] | None = None
) -> m.StartOrder:
    return m.StartOrder(FIRST, a, index, attempt, instead_of)


def ready() -> Holdings:
    holdings = Holdings()
    assert holdings.start(order(), 0.0) == [m.RunShard(A, 0)]
    holdings.hear(m.ShardBecameReady(*PLACE, "host:1", 500 * MB, 77), 1.0)
    return holdings


def states(holdings: Holdings, now: float = 2.0) -> list[tuple[str, int]]:
    return [(each.state, each.attempt) for each in holdings.reports(now)]


def test_the_same_order_again_starts_nothing() -> None:
    holdings = ready()
    assert holdings.start(order(), 2.0) == holdings.start(order(index=7), 2.0) == []
    assert states(holdings) == [("ready", 1)]
    (report,) = holdings.reports(2.0)
    assert (report.address, report.memory_bytes, report.pid, report.progress) == ("host:1", 500 * MB, 77, 1.0)


def test_a_dead_shard_is_reported_with_its_reason_and_a_late_copy_of_its_order_starts_nothing() -> None:
    holdings = ready()
    holdings.hear(m.ShardDied(*PLACE, "tensor x is missing", permanent=True), 2.0)
    (report,) = holdings.reports(3.0)
    assert (report.state, report.reason, report.permanent, report.address) == ("dead", "tensor x is missing", True, "")
    assert holdings.start(order(), 3.0) == []
    assert holdings.start(order(attempt=2), 3.0) == [m.RunShard(A, 0)]
    assert states(holdings) == [("loading", 2)]


def test_a_dead_shard_is_forgotten_after_a_while() -> None:
    holdings = ready()
    holdings.hear(m.ShardDied(*PLACE, "x"), 2.0)
    assert holdings.reports(2.0 + DEAD_REPORTED_S) == ()
    assert holdings.start(order(), 2.0 + DEAD_REPORTED_S) == [m.RunShard(A, 0)]


def test_a_later_attempt_ends_the_process_before_it_and_starts_when_that_is_gone() -> None:
    holdings = ready()
    assert holdings.start(order(attempt=2), 2.0) == [m.EndShard(*PLACE)]
    assert holdings.start(order(attempt=2), 2.1) == [], "it is ending"
    holdings.hear(m.ShardDied(*PLACE, "stopped"), 2.2)
    assert holdings.start(order(attempt=2), 2.3) == [m.RunShard(A, 0)]


def test_a_stop_is_obeyed_once_and_words_of_the_stopped_change_nothing() -> None:
    holdings = Holdings()
    assert holdings.stop(*PLACE, 0.0) == []
    holdings.start(order(), 0.0)
    assert holdings.stop(*PLACE, 1.0) == [m.EndShard(*PLACE)]
    assert holdings.stop(*PLACE, 1.1) == []
    holdings.hear(m.ShardBecameReady(*PLACE, "host:1", 1, 1), 1.2)
    holdings.hear(m.ShardMadeProgress(*PLACE, 0.5), 1.2)
    assert states(holdings) == [("stopping", 1)]


def test_a_shard_of_the_same_layers_and_files_takes_the_new_name() -> None:
    holdings = ready()
    new = assigned("a", "c", serial=2)
    assert holdings.start(order(new, 0, 1, PLACE), 2.0) == [m.RenameShard(*PLACE, new, 0)]
    assert [(each.assignment, each.state, each.pid) for each in holdings.reports(2.0)] == [(new, "ready", 77)]
    holdings.hear(m.ShardDied(*PLACE, "late"), 3.0)
    assert states(holdings) == [("ready", 1)], "under its old name nobody is meant"


def test_a_shard_of_other_layers_or_files_is_not_taken_over() -> None:
    others = (
        assigned("a", "b", "c", serial=2),
        assigned("a", "b", serial=2, costs=model(kv=1000, layer=90 * MB)),
        assigned("a", "b", serial=2, costs=model("other")),
    )
    for new in others:
        same = new.plan.stages[0].layers == A.plan.stages[0].layers and new.plan.model == A.plan.model
        holdings = ready()
        (effect,) = holdings.start(order(new, 0, 1, PLACE), 2.0)
        assert isinstance(effect, m.RenameShard if same else m.RunShard)


def test_a_head_with_another_draft_model_is_not_taken_over_but_the_shards_after_it_are() -> None:
    new = assigned("a", "b", serial=2)
    new = replace(new, plan=replace(new.plan, draft=Draft("small", 1, 1)))
    (effect,) = ready().start(order(new, 0, 1, PLACE), 2.0)
    assert isinstance(effect, m.RunShard)
    holdings = Holdings()
    holdings.start(order(A, 1), 0.0)
    holdings.hear(m.ShardBecameReady(A.plan.hash, 1, "host:1", 500 * MB, 77), 1.0)
    (effect,) = holdings.start(order(new, 1, 1, (A.plan.hash, 1)), 2.0)
    assert isinstance(effect, m.RenameShard)


def test_only_what_others_wait_for_makes_a_beat_urgent() -> None:
    holdings = Holdings()
    holdings.start(order(), 0.0)
    version = holdings.version
    holdings.hear(m.ShardMadeProgress(*PLACE, 0.5), 1.0)
    assert (holdings.version, holdings.held_bytes()) == (version, 250 * MB)
    holdings.hear(m.ShardBecameReady(*PLACE, "host:1", 500 * MB, 77), 1.0)
    assert holdings.version > version
    assert holdings.held_bytes() == 500 * MB


def test_the_table_is_bounded_and_forgets_the_dead_first() -> None:
    holdings = ready()
    for serial in range(2, PLACES_MAX + 20):
        other = assigned("a", "b", serial=serial)
        holdings.start(order(other), 2.0)
        holdings.hear(m.ShardDied(other.plan.hash, 0, "x"), 2.0)
    assert len(holdings.reports(2.0)) == PLACES_MAX
    assert states(holdings)[0] == ("ready", 1)
