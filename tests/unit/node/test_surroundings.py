"""What probes and cards learn of the cluster, from a machine that hears beats."""

from __future__ import annotations

from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.cluster.plan import Plan, Stage
from ringleader.node.probes import MEMORY, Surroundings
from ringleader.node.telemetry import Work
from ringleader.values import LayerRange
from tests.unit.cluster.builders import model, node

ME, B, C = node("me"), node("b"), node("c")


def beat(profile: m.NodeProfile, *shards: m.ShardReport) -> m.Heard:
    return m.Heard(profile.node, m.Beat(profile, 1, 1, None, m.NO_TERM, (ME.node,), shards=shards))


def ready(pid: int) -> m.ShardReport:
    costs = model()
    plan = Plan(costs.model, costs.digest, 10, 100, (Stage(B.node, LayerRange(0, 10), 1, 1),), "")
    return m.ShardReport(
        m.Assignment(plan, costs, m.PlanWish(100), False, "", m.Term(1, B.node)), 0, 1, "ready", pid=pid
    )


def test_nodes_count_as_soon_as_they_are_heard_whomever_they_follow() -> None:
    member = Member(ME, 1)
    around = Surroundings(member)
    member.step(m.Ticked(), 1.0)
    assert (around.others(), around.names()) == ([], {ME.node: "me"})
    member.step(beat(B), 1.1)
    member.step(m.Ticked(), 10.0)  # it leads itself by now, and nobody follows it
    member.step(beat(C), 10.0)
    assert around.names()[C.node] == "c"
    assert C.node in around.others()


def test_only_machines_of_the_same_kind_tell_how_fast_this_one_may_be() -> None:
    member = Member(ME, 1)
    member.step(m.Ticked(), 1.0)
    member.step(beat(replace(B, bytes_per_s=3e10, measured_by=MEMORY)), 1.0)
    member.step(beat(replace(C, bytes_per_s=9e10, measured_by=MEMORY, chip="another")), 1.0)
    assert Surroundings(member).same() == [3e10]


def test_the_shards_of_other_nodes_do_not_keep_this_one_busy() -> None:
    member = Member(ME, 1)
    member.step(m.Ticked(), 1.0)
    member.step(beat(B, ready(7)), 1.0)
    assert not Surroundings(member, Work(used_s=lambda pid: 99.0)).busy()
    assert [(node, report.pid) for node, report in member.reports()] == [(B.node, 7)]


def test_a_shard_of_this_node_that_loads_keeps_it_busy() -> None:
    member = Member(ME, 1)
    effects: list[m.Effect] = []
    for tick in range(60):
        effects += member.step(m.Ticked(), tick / 10)
    effects += member.step(m.RingWanted(model(), m.PlanWish(1000)), 6.0)
    assert any(isinstance(effect, m.RunShard) for effect in effects)
    assert Surroundings(member, Work(used_s=lambda pid: 0.0)).busy()
