"""Which models have which ring, and what the shards of dropped rings still hold: where plans are made and undone.

Laws: a plan is made of memory that no living plan was promised; a shard of a dropped plan is stopped, or taken
over by the next plan of its model, but never forgotten while it may live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ringleader.cluster import messages as m
from ringleader.cluster.adoption import Found, Foundlings
from ringleader.cluster.moving import worth_moving
from ringleader.cluster.nodes import NodeTable, can_hold
from ringleader.cluster.plan import NODE_RESERVE_BYTES, Plan, make_plan, predicted_now
from ringleader.cluster.requests import Request
from ringleader.cluster.rings import STOP_DEADLINE_S, Ring, Shard, first_epoch
from ringleader.cluster.rollout import Rollout
from ringleader.errors import BadRequest, CallerFault, ModelDoesNotFit, ModelFault, RingleaderError, UnknownModel
from ringleader.values import ModelId, NodeId, PlanHash

# So long the shards of a dropped plan wait for the next one, which may go on with them: a request that is sent again
# comes sooner, and so does a node whose link only flickered.
KEEP_S = 3.0
RETIRED_MAX = 64  # plans that were dropped here; older ones are strays like any other


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A shard of a dropped plan that was told to stop and still holds memory."""

    node: NodeId
    resident_bytes: int
    until: float


class Placement:
    """Of one master in one term."""

    def __init__(self, me: m.NodeProfile, term: m.Term) -> None:
        self.nodes = NodeTable(me)
        self.rollouts: dict[ModelId, Rollout] = {}
        self.term = term
        self.foundlings = Foundlings()
        self._leaving: dict[tuple[PlanHash, int], _Leaving] = {}
        self._retired: deque[PlanHash] = deque(maxlen=RETIRED_MAX)
        self._plans_made = 0

    # ------------------------------------------------------------ making plans

    def place(
        self, rollout: Rollout, request: Request | None, idle: Sequence[Rollout], now: float
    ) -> list[m.Effect] | RingleaderError:
        """Make a plan and start its shards, or return why there is none. What is `idle` (the longest first) is
        unloaded for it where nothing else helps."""
        refusal: RingleaderError = ModelFault(f"nobody wants {rollout.model}")
        for wanted in rollout.wishes(request):
            try:
                plan, given_up = self._plan_beside(wanted, [each for each in idle if each is not rollout])
            except (CallerFault, ModelFault) as error:
                refusal = error
                continue
            effects: list[m.Effect] = []
            for each in given_up:
                effects += self.unload(each, f"to make room for {rollout.model}", now)
            return effects + self.start(rollout, plan, wanted, now)
        return refusal

    def start(self, rollout: Rollout, plan: Plan, wanted: m.RingWanted, now: float) -> list[m.Effect]:
        """Make the plan the model's ring, going on with what its plan before left."""
        self._plans_made += 1
        ring = Ring(plan, self.names(), now, self.term)
        standing = rollout.standing is not None
        rollout.assignment = m.Assignment(plan, wanted.costs, wanted.wish, standing, wanted.reference, self.term)
        rollout.ring, rollout.reason, rollout.refusals, rollout.used_at = ring, "", 0, now
        text = f"{rollout.model} goes on {ring.describe_stages()}: {plan.why}"
        effects: list[m.Effect] = [m.Tell(text, rollout.model, "plan_made")]
        if rollout.before is not None:
            ring.take_over(rollout.before)
        here = {stage.node for stage in plan.stages}
        for other in list(self.rollouts.values()):
            held = other.before.shards if other.before is not None else []
            if other is rollout or any(shard.alive and shard.stage.node in here for shard in held):
                effects += self.release(other, now)
        return effects + self.start_if_room(ring, now)

    def start_if_room(self, ring: Ring, now: float) -> list[m.Effect]:
        """Start a planned ring, unless shards that are leaving still hold the memory that it needs."""
        if ring.state != "planned":
            return []
        for node in {stage.node for stage in ring.plan.stages}:
            fresh = [s.stage.memory_bytes for s in ring.shards if s.stage.node == node and s.instead_of is None]
            leaving = sum(each.resident_bytes for each in self._leaving.values() if each.node == node)
            if leaving and sum(fresh) > self.nodes.free_bytes(node):
                return []
        return ring.start(now)

    def better_plan(self, rollout: Rollout, ring: Ring) -> tuple[Plan, m.RingWanted] | None:
        """What would be planned now if the model had no ring, where that is worth the move."""
        a = rollout.assignment
        if a is None:
            return None
        wanted = next(rollout.wishes(None), m.RingWanted(a.costs, a.wish, a.reference))
        try:
            plan = self._make(wanted, without=[rollout])
        except (CallerFault, ModelFault):
            return None
        old_now = predicted_now(ring.plan, a.costs, self.nodes.profiles())
        pays = worth_moving(ring.plan, plan, objective=wanted.wish.objective, old_now=old_now)
        return (plan, wanted) if pays else None

    def _plan_beside(self, wanted: m.RingWanted, idle: Sequence[Rollout]) -> tuple[Plan, Sequence[Rollout]]:
        try:
            return self._make(wanted), ()
        except ModelDoesNotFit:
            for count in range(1, len(idle) + 1):
                try:
                    return self._make(wanted, without=idle[:count]), idle[:count]
                except ModelDoesNotFit:
                    continue
            raise

    def _make(self, wanted: m.RingWanted, without: Sequence[Rollout] = ()) -> Plan:
        for name, _, _ in wanted.wish.layers:
            if len(same := self.nodes.called(name)) > 1:
                shown = ", ".join(f"{p.name} at {p.host}" for p in same)
                raise BadRequest(
                    f"layers: {len(same)} nodes are called {name!r} ({shown}); start each with a --name of its own",
                    param="layers",
                )
        nodes = self.nodes.plannable(self._promised(without))
        able = [node for node in nodes if can_hold(node, wanted)]
        if not able:
            text = f"no node that is here has the files of {wanted.costs.model}; fetch them on one of them: "
            raise UnknownModel(f"{text}ringleader models pull {wanted.costs.model}", param="model")
        serial = first_epoch(self.term) + self._plans_made + 1
        unable = ", ".join(node.name for node in nodes if node not in able)
        if not unable:
            return make_plan(wanted.costs, able, wanted.wish, serial=serial)
        try:
            plan = make_plan(wanted.costs, able, wanted.wish, serial=serial)
        except ModelDoesNotFit as error:
            there = f"Without its files, so not counted: {unable}; there: ringleader models pull {wanted.costs.model}"
            raise ModelDoesNotFit(f"{error} {there}") from error
        return replace(plan, why=f"{plan.why}. Without its files: {unable}")

    # ------------------------------------------------------------ undoing them

    def keep(self, rollout: Rollout, ring: Ring, lost: NodeId, now: float) -> list[m.Effect]:
        """The plan is dropped because a node is lost; its other shards wait a moment for the next plan."""
        effects = [*self.release(rollout, now), *ring.close(now, lost=lost)]
        rollout.ring, rollout.assignment = None, None
        rollout.before, rollout.keep_until = ring, now + KEEP_S
        self._retired.append(ring.plan.hash)
        return effects

    def release(self, rollout: Rollout, now: float) -> list[m.Effect]:
        """Stop what was kept, but for the shards that the model's ring takes over."""
        before, rollout.before = rollout.before, None
        if before is None:
            return []
        taken = {shard.instead_of for shard in rollout.ring.shards} if rollout.ring is not None else set()
        for shard in before.shards:
            if (before.plan.hash, shard.index) in taken:
                shard.state = "dead"  # under this name
        orders = before.stop(now)
        self._leave(before, now)
        return orders

    def drop(self, rollout: Rollout, ring: Ring, now: float) -> None:
        """Forget a ring that was stopped, but not the memory that its stopping shards still hold."""
        self._leave(ring, now)
        self._retired.append(ring.plan.hash)
        rollout.ring, rollout.assignment = None, None

    def unload(self, rollout: Rollout, why: str, now: float) -> list[m.Effect]:
        """Give the model's memory back."""
        ring = rollout.ring
        if ring is None:
            return []
        effects: list[m.Effect] = [m.Tell(f"{rollout.model} is unloaded {why}", rollout.model, "ring_unloaded")]
        effects += ring.stop(now)
        self.drop(rollout, ring, now)
        return effects

    def move(self, rollout: Rollout, ring: Ring, plan: Plan, wanted: m.RingWanted, now: float) -> list[m.Effect]:
        """Go over to a better plan: shards whose layers stay where they are go on, the others stop and start."""
        effects: list[m.Effect] = [m.Tell(f"{rollout.model} moves to a better plan", rollout.model, "ring_moved")]
        effects += ring.close(now)
        self._retired.append(ring.plan.hash)
        rollout.ring, rollout.before = None, ring
        return effects + self.start(rollout, plan, wanted, now)

    def _leave(self, ring: Ring, now: float) -> None:
        for shard in ring.shards:
            if shard.alive:
                key = (ring.plan.hash, shard.index)
                self._leaving[key] = _Leaving(shard.stage.node, shard.resident_bytes, now + STOP_DEADLINE_S)

    # ------------------------------------------------------------ shards of dropped plans

    def tick(self, now: float) -> list[m.Effect]:
        self._leaving = {key: shard for key, shard in self._leaving.items() if now < shard.until}
        effects: list[m.Effect] = []
        for rollout in self.rollouts.values():
            if rollout.before is not None and now >= rollout.keep_until:
                effects += self.release(rollout, now)
            if rollout.ring is not None:
                effects += self.start_if_room(rollout.ring, now)
        return effects

    def forget_node(self, node: NodeId) -> None:
        """It is lost, with whatever it held."""
        self._leaving = {key: shard for key, shard in self._leaving.items() if shard.node != node}
        for rollout in self.rollouts.values():
            for shard in rollout.before.shards if rollout.before is not None else []:
                if shard.stage.node == node:
                    shard.state = "dead"

    def shard_gone(self, plan: PlanHash, index: int) -> None:
        """A shard has died; if its plan was dropped, that is all there is to it."""
        self._leaving.pop((plan, index), None)
        for shard in self._kept(plan):
            if shard.index == index:
                shard.state = "dead"

    def follow_up(self, node: NodeId, alive: dict[tuple[PlanHash, int], m.ShardReport]) -> list[m.Effect]:
        """What the living shards on `node` mean for dropped plans: which have gone, which are told again to go."""
        for key in [key for key, shard in self._leaving.items() if shard.node == node and key not in alive]:
            self.shard_gone(*key)
        for rollout in self.rollouts.values():
            if rollout.before is not None:
                rollout.before.look_again(node, alive)
        taken = {shard.instead_of for ring in self.rings() for shard in ring.shards if not shard.seen}
        orders: list[m.Effect] = []
        for (plan, index), report in alive.items():
            unwanted = plan in self._retired and not self._kept(plan) and (plan, index) not in taken
            if unwanted and report.state != "stopping" and self.ring_of(plan) is None:
                orders.append(m.StopShard(node, plan, index))
        return orders

    def see_off(self, found: Found, now: float) -> None:
        """A plan that this master does not want: its shards are told to stop whenever they are reported."""
        self._retired.append(found.plan)
        for index, (node, report) in found.shards.items():
            self._leaving[found.plan, index] = _Leaving(node, report.memory_bytes, now + STOP_DEADLINE_S)

    def knows(self, plan: PlanHash) -> bool:
        """Whether the plan is, or was, of this master."""
        return plan in self._retired or self.ring_of(plan) is not None

    def _kept(self, plan: PlanHash) -> list[Shard]:
        kept = (rollout.before for rollout in self.rollouts.values())
        return next((ring.shards for ring in kept if ring is not None and ring.plan.hash == plan), [])

    # ------------------------------------------------------------ the tables

    def rings(self) -> Iterator[Ring]:
        return (rollout.ring for rollout in self.rollouts.values() if rollout.ring is not None)

    def ring_of(self, plan: PlanHash) -> Ring | None:
        return next((ring for ring in self.rings() if ring.plan.hash == plan), None)

    def names(self) -> dict[NodeId, str]:
        return {profile.node: profile.name for profile in self.nodes.profiles()}

    def _promised(self, without: Sequence[Rollout] = ()) -> list[tuple[NodeId, int]]:
        """What living plans may use, those included that may yet be taken over."""
        plans = [r.ring.plan for r in self.rollouts.values() if r.ring is not None and r not in without]
        plans += [found.assignment.plan for found in self.foundlings.all()]
        return [(stage.node, stage.memory_bytes) for plan in plans for stage in plan.stages]

    def has_room(self, found: Found) -> bool:
        """Whether a plan that was found does not take memory that this master has planned with."""
        stages = found.assignment.plan.stages
        mine = [r.assignment for r in self.rollouts.values() if r.assignment is not None]
        planned = {stage.node for a in mine if a.term == self.term for stage in a.plan.stages}
        if found.whole and not planned & {stage.node for stage in stages}:
            return True  # it runs: nobody's figures say that it does not fit
        promised = [*self._promised(), *((stage.node, stage.memory_bytes) for stage in stages)]
        room = {profile.node: profile.memory_free_bytes for profile in self.nodes.plannable(promised)}
        return all(room.get(stage.node, NODE_RESERVE_BYTES) >= NODE_RESERVE_BYTES for stage in stages)
