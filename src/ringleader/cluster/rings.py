"""The life of a ring: one plan, its shards, and what they are told. A ring knows no requests and makes no plans.

Laws: an epoch never comes twice; a shard is started only when it is dead; what is heard of another epoch, or
of a shard that is not in a state to say it, changes nothing. The table is `MOVES`; the limits are under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from ringleader.cluster.messages import (
    NO_TERM,
    CloseRing,
    Effect,
    LinkRing,
    RingBroke,
    RingLinked,
    ShardBecameReady,
    ShardDied,
    ShardMadeProgress,
    ShardReport,
    StartShard,
    StopShard,
    Tell,
    TellKind,
    Term,
)
from ringleader.cluster.plan import Plan, Stage
from ringleader.values import NodeId, PlanHash

RingState = Literal["planned", "loading", "linking", "serving", "broken", "failed"]
ShardState = Literal["loading", "ready", "stopping", "dead"]

#    from        what happens                                      to
MOVES: dict[RingState, frozenset[RingState]] = {
    "planned": frozenset({"loading", "broken"}),  # every shard is started | adopted with one missing
    "loading": frozenset({"linking", "broken", "failed"}),  # the last is ready | one died or is stuck
    "linking": frozenset({"serving", "broken", "failed"}),  # linked | broke, died, or took too long
    "serving": frozenset({"broken", "failed"}),  # broke or died
    "broken": frozenset({"loading"}),  # backoff is over: the dead shards are started, the others kept
    "failed": frozenset(),  # FAILURES_MAX in a row, or the model is at fault: all shards stop, the plan is done with
}

BACKOFF_FIRST_S = 0.5  # a shard that died by chance is back before a client has given up
BACKOFF_MAX_S = 30.0
FAILURES_MAX = 5  # in a row; what fails five times fails for a reason that a sixth try does not mend
HEALTHY_AFTER_S = 60.0  # of serving: then the failures before are forgotten
LOAD_STALL_S = 120.0  # without progress: a disk may sleep, a network file may be slow to open, but not for longer
LOAD_DEADLINE_S = 600.0  # for a shard of ordinary size, however it progresses
LOAD_BYTES_PER_S_MIN = 100_000_000  # a big shard gets as long as this rate needs: the slowest disk worth using
LINK_DEADLINE_S = 30.0  # each shard dials one other; seconds at most
STOP_DEADLINE_S = 15.0  # after which a shard that was told to stop is taken for dead


@dataclass(slots=True)
class Shard:
    """A shard as the master knows it. `moved` is when it was started, stopped, or last made progress.

    `attempt` counts its starts; `seen` says that its node has reported this one. `instead_of` is the shard of
    the plan before whose process it takes over, if that still lives.
    """

    index: int
    stage: Stage
    state: ShardState = "dead"
    started: float = 0.0
    moved: float = 0.0
    progress: float = 0.0
    address: str = ""
    pid: int = 0
    memory_bytes: int = 0
    attempt: int = 0
    seen: bool = False
    instead_of: tuple[PlanHash, int] | None = None

    @property
    def alive(self) -> bool:
        return self.state != "dead"

    @property
    def resident_bytes(self) -> int:
        """What it holds of its node's memory now, as far as is known."""
        if not self.alive:
            return 0
        return max(self.memory_bytes, int(self.stage.weight_bytes * self.progress))

    def stuck(self, now: float) -> str | None:
        """Why it must be taken for stuck while loading; None if all is well."""
        allowed = max(LOAD_DEADLINE_S, self.stage.weight_bytes / LOAD_BYTES_PER_S_MIN)
        if self.state != "loading":
            return None
        if now - self.moved >= LOAD_STALL_S:
            return f"made no progress for {now - self.moved:.0f} s, at {self.progress:.0%} of its weights"
        if now - self.started >= allowed:
            return f"was not ready after {now - self.started:.0f} s, at {self.progress:.0%} of its weights"
        return None


class Ring:
    """Each method hears one thing and returns the orders that follow. `reason` is why it last broke; `at_fault`
    that the model itself is to blame, so that no further try can go better."""

    def __init__(self, plan: Plan, names: Mapping[NodeId, str], now: float, term: Term = NO_TERM) -> None:
        self.plan = plan
        self.term = term
        self.state: RingState = "planned"
        self.since = now
        self.epoch = 0
        self._links = 0
        self.failures = 0
        self.retry_at = now
        self.reason = ""
        self.at_fault = False
        self.shards = [Shard(index, stage) for index, stage in enumerate(plan.stages)]
        self._names = dict(names)

    def start(self, now: float) -> list[Effect]:
        """Bring up every shard that is dead; link at once if none is."""
        self._enter("loading", now)
        orders: list[Effect] = []
        for shard in self.shards:
            if not shard.alive:
                shard.state, shard.started, shard.moved = "loading", now, now
                if shard.attempt:  # else it may hold what it takes over
                    shard.progress, shard.address, shard.pid, shard.memory_bytes = 0.0, "", 0, 0
                shard.attempt, shard.seen = shard.attempt + 1, False
                orders.append(self.order_to_start(shard))
        return orders + self._link_if_ready(now)

    def order_to_start(self, shard: Shard) -> StartShard:
        """The order of its present attempt; the same again where it was lost on its way."""
        return StartShard(shard.stage.node, self.plan, shard.index, shard.attempt, shard.instead_of)

    def take_over(self, before: Ring) -> None:
        """Before the start: go on with the processes of the plan before that hold the same layers and caches.

        They have seen that ring's epochs, so this one's come after them.
        """
        self._links = before._links
        for shard in self.shards:
            for old in before.shards:
                exists = old.state == "ready" or (old.state == "loading" and old.progress > 0)
                if exists and old.stage == shard.stage:
                    shard.instead_of = (before.plan.hash, old.index)
                    shard.progress, shard.memory_bytes = old.progress, old.memory_bytes

    def adopt(self, reports: Mapping[int, ShardReport], now: float) -> list[Effect]:
        """Take the shards as their nodes report them: link what is all there, wait for what loads, and start
        only what is missing."""
        for index, report in reports.items():
            shard = self.shards[index]
            if report.state == "dead":
                continue
            shard.state, shard.attempt, shard.seen = report.state, report.attempt, True
            shard.started, shard.moved, shard.progress = now, now, report.progress
            shard.address, shard.pid, shard.memory_bytes = report.address, report.pid, report.memory_bytes
        if all(shard.state in ("loading", "ready") for shard in self.shards):
            self._enter("loading", now)
            return self._link_if_ready(now)
        missing = [self._describe(shard) for shard in self.shards if shard.state not in ("loading", "ready")]
        self.reason = f"it was taken over without {' and '.join(missing)}"
        self.retry_at = now
        self._enter("broken", now)
        return []

    def shard_ready(self, event: ShardBecameReady, now: float) -> list[Effect]:
        shard = self._shard(event.index)
        if shard is None or shard.state != "loading":
            return []
        shard.state, shard.moved, shard.progress = "ready", now, 1.0
        shard.address, shard.pid, shard.memory_bytes = event.address, event.pid, event.memory_bytes
        shard.seen = True
        return self._link_if_ready(now) if self.state == "loading" else []

    def shard_progress(self, event: ShardMadeProgress, now: float) -> None:
        shard = self._shard(event.index)
        if shard is not None and shard.state == "loading" and shard.progress < event.fraction <= 1.0:
            shard.progress, shard.moved = event.fraction, now

    def shard_died(self, event: ShardDied, now: float) -> list[Effect]:
        shard = self._shard(event.index)
        if shard is None or not shard.alive:
            return []
        expected = shard.state == "stopping"
        _bury(shard)
        if expected or self.state not in ("loading", "linking", "serving"):
            return []  # no news, or part of the fall that the ring is in already
        if event.permanent:
            self.at_fault = True
            return self._break(f"{self._describe(shard)} cannot be loaded: {event.reason}", now)
        return self._break(f"{self._describe(shard)} died: {event.reason}", now)

    def linked(self, event: RingLinked, now: float) -> list[Effect]:
        if self.state != "linking" or event.epoch != self.epoch:
            return []
        self._enter("serving", now)
        return [self._tell("ring_serves", f"serves ({self.describe_stages()})")]

    def answered(self) -> None:
        """A request came to its end here: what failed before does not fail for a reason that lasts."""
        if self.state == "serving":
            self.failures = 0

    def broke(self, event: RingBroke, now: float) -> list[Effect]:
        if self.state not in ("linking", "serving") or event.epoch != self.epoch:
            return []
        silent = None if event.silent is None else self._shard(event.silent)
        orders: list[Effect] = [self._stop(silent, now)] if silent is not None and silent.state == "ready" else []
        return orders + self._break(event.reason, now)

    def tick(self, now: float) -> list[Effect]:
        """Look at the deadlines and the backoff."""
        for shard in self.shards:
            if shard.state == "stopping" and now - shard.moved >= STOP_DEADLINE_S:
                _bury(shard)
        if self.state == "loading":
            return self._stop_stuck(now)
        if self.state == "linking" and now - self.since >= LINK_DEADLINE_S:
            return self._break(f"its shards did not link within {LINK_DEADLINE_S:.0f} s", now)
        leaving = any(shard.state == "stopping" for shard in self.shards)
        if self.state == "broken" and now >= self.retry_at and not leaving:
            return self.start(now)
        return []

    def stop(self, now: float, *, lost: NodeId | None = None) -> list[Effect]:
        """Stop every shard and close the ring, which is of no use any more. Shards of the `lost` node are
        dead already."""
        orders: list[Effect] = [CloseRing(self.plan.hash)] if self.state in ("linking", "serving") else []
        for shard in self.shards:
            if shard.stage.node == lost:
                _bury(shard)
            elif shard.state in ("loading", "ready"):
                orders.append(self._stop(shard, now))
        return orders

    def close(self, now: float, *, lost: NodeId | None = None) -> list[Effect]:
        """Hang up, for its plan is dropped, perhaps with a `lost` node; the shards stay for the next plan."""
        orders: list[Effect] = [CloseRing(self.plan.hash)] if self.state in ("linking", "serving") else []
        if self.state in ("loading", "linking", "serving"):
            self._enter("broken", now)
        for shard in self.shards:
            if shard.stage.node == lost:
                _bury(shard)
        return orders

    def look_again(self, node: NodeId, alive: Mapping[tuple[PlanHash, int], ShardReport]) -> None:
        """Of a ring that is kept for the next plan: which shards on the node still live, its own after a return too."""
        for shard in self.shards:
            if shard.stage.node == node:
                report = alive.get((self.plan.hash, shard.index))
                if report is None or report.attempt != shard.attempt:
                    _bury(shard)
                elif report.state in ("loading", "ready"):
                    shard.state, shard.progress, shard.memory_bytes = report.state, report.progress, report.memory_bytes

    def describe_stages(self) -> str:
        """`mac-studio 0-74, mac-mini 75-93`."""
        return ", ".join(f"{self.name(s.stage.node)} {s.stage.layers}" for s in self.shards)

    def name(self, node: NodeId) -> str:
        """The node's name for people, as of when the plan was made."""
        return self._names.get(node, str(node))

    def _link_if_ready(self, now: float) -> list[Effect]:
        if any(shard.state != "ready" for shard in self.shards):
            return []
        self._enter("linking", now)
        self._links += 1
        self.epoch = first_epoch(self.term) + self._links
        addresses = tuple(shard.address for shard in self.shards)
        return [LinkRing(self.plan.hash, self.epoch, addresses, self.term, self.plan)]

    def _stop_stuck(self, now: float) -> list[Effect]:
        found = [(shard, why) for shard in self.shards if (why := shard.stuck(now)) is not None]
        if not found:
            return []
        orders: list[Effect] = [self._stop(shard, now) for shard, _ in found]
        return orders + self._break("; ".join(f"{self._describe(shard)} {why}" for shard, why in found), now)

    def _break(self, reason: str, now: float) -> list[Effect]:
        if self.state == "serving" and now - self.since >= HEALTHY_AFTER_S:
            self.failures = 0
        self.failures += 1
        reason = reason.rstrip(". ")
        self.reason = reason
        if self.at_fault or self.failures >= FAILURES_MAX:
            orders = self.stop(now)
            self._enter("failed", now)
            tries = "" if self.at_fault else f" after {self.failures} failures in a row; the last"
            return [*orders, self._tell("ring_given_up", f"given up{tries}: {reason}")]
        orders = [CloseRing(self.plan.hash)] if self.state in ("linking", "serving") else []
        wait_s = backoff_s(self.failures)
        self.retry_at = now + wait_s
        self._enter("broken", now)
        return [*orders, self._tell("ring_broke", f"broke: {reason}; next try in {wait_s:.1f} s")]

    def _stop(self, shard: Shard, now: float) -> StopShard:
        shard.state, shard.moved = "stopping", now
        return StopShard(shard.stage.node, self.plan.hash, shard.index)

    def _enter(self, state: RingState, now: float) -> None:
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state, self.since = state, now

    def _shard(self, index: int) -> Shard | None:
        return self.shards[index] if 0 <= index < len(self.shards) else None

    def _describe(self, shard: Shard) -> str:
        return f"the shard with layers {shard.stage.layers} on {self.name(shard.stage.node)}"

    def _tell(self, kind: TellKind, text: str) -> Tell:
        return Tell(f"ring {self.plan.model} {text}", self.plan.model, kind)


def first_epoch(term: Term) -> int:
    """Epochs of one ring count from here: no two masters ever use the same."""
    if term == NO_TERM:
        return 0
    digest = int.from_bytes(blake2b(term.node.encode(), digest_size=2).digest(), "big")
    return term.number << 32 | digest << 16


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures in a row (1 or more)."""
    return float(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures - 1, 16)))


def _bury(shard: Shard) -> None:
    shard.state, shard.address, shard.pid, shard.memory_bytes, shard.progress = "dead", "", 0, 0, 0.0
