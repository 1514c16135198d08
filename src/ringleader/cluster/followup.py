"""What a node's report says about the shards that a ring has on it, and which orders it did not hear.

Level-triggered: run for every report, so that a lost order is sent again and a lost word about a death is no harm.
Laws: a shard is taken for dead only by a report that names its attempt, or that lacks a shard it had before.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringleader.cluster import messages as m
from ringleader.cluster.rings import Ring, Shard
from ringleader.values import NodeId, PlanHash

Reports = Mapping[tuple[PlanHash, int], m.ShardReport]


def by_place(reports: tuple[m.ShardReport, ...]) -> Reports:
    return {(report.assignment.plan.hash, report.index): report for report in reports}


def follow_up(ring: Ring, node: NodeId, reports: Reports) -> tuple[list[m.Event], list[m.Effect]]:
    """What the report amounts to for this ring: news, and orders to send again."""
    news: list[m.Event] = []
    orders: list[m.Effect] = []
    for shard in ring.shards:
        if shard.stage.node == node and ring.state not in ("planned", "failed"):
            report = reports.get((ring.plan.hash, shard.index))
            if report is None or report.attempt != shard.attempt:
                _not_there(ring, shard, report, news, orders)
            else:
                shard.seen = True
                _there(ring, shard, report, news, orders)
    return news, orders


def _not_there(
    ring: Ring, shard: Shard, report: m.ShardReport | None, news: list[m.Event], orders: list[m.Effect]
) -> None:
    if shard.state == "loading" and not shard.seen:
        if report is not None:  # a master before this one got further
            shard.attempt = max(shard.attempt, report.attempt + 1)
        orders.append(ring.order_to_start(shard))
    elif shard.alive:
        news.append(m.ShardDied(ring.plan.hash, shard.index, "its node does not run it any more"))
    elif report is not None and report.state in ("loading", "ready"):
        orders.append(m.StopShard(shard.stage.node, ring.plan.hash, shard.index))


def _there(ring: Ring, shard: Shard, report: m.ShardReport, news: list[m.Event], orders: list[m.Effect]) -> None:
    plan = ring.plan.hash
    if report.state == "dead":
        if shard.alive:
            news.append(m.ShardDied(plan, shard.index, report.reason, report.permanent))
    elif shard.state in ("stopping", "dead"):
        if report.state != "stopping":
            orders.append(m.StopShard(shard.stage.node, plan, shard.index))
    elif report.state == "loading":
        if report.progress > shard.progress:
            news.append(m.ShardMadeProgress(plan, shard.index, report.progress))
    elif report.state == "ready" and shard.state == "loading":
        news.append(m.ShardBecameReady(plan, shard.index, report.address, report.memory_bytes, report.pid))
