"""A few members on a network without delay: what a test needs to see them agree, and to see one of them alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.values import NodeId
from tests.unit.cluster.builders import node

TICK_S = 0.1


class Bus:
    """Shards become ready and rings link at once. `effects[node]` is all that a node ordered of its performer."""

    def __init__(self, *names: str, idle_unload_s: float | None = 1800.0) -> None:
        self.now = 0.0
        self.profiles = {profile.node: profile for profile in (node(name) for name in names)}
        self.members = {id_: Member(p, 1, idle_unload_s=idle_unload_s) for id_, p in self.profiles.items()}
        self.effects: dict[NodeId, list[m.Effect]] = {id_: [] for id_ in self.members}
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self._words: deque[tuple[NodeId, NodeId, m.Word]] = deque()
        for here in self.members:
            for there in self.members.keys() - {here}:
                self.tell(here, m.PeerUp(there))

    def tell(self, to: NodeId, event: m.Event) -> list[m.Effect]:
        """One step of one member, and everything that comes of it."""
        member = self.members.get(to)
        effects = member.step(event, self.now) if member is not None else []
        for effect in effects:
            self.effects[to].append(effect)
            self._perform(to, effect)
        while self._words:
            here, there, word = self._words.popleft()
            if (here, there) not in self.cut:
                self.tell(there, m.Heard(here, word))
        return effects

    def _perform(self, here: NodeId, effect: m.Effect) -> None:
        match effect:
            case m.Send(to, word):
                self._words.append((here, to, word))
            case m.RunShard(assignment, index):
                plan = assignment.plan
                self.tell(here, m.ShardBecameReady(plan.hash, index, f"{here}:{plan.hash}/{index}", 1, 7))
            case m.EndShard(plan_hash, index):
                self.tell(here, m.ShardDied(plan_hash, index, "stopped"))
            case m.LinkRing(plan_hash, epoch):
                self.tell(here, m.RingLinked(plan_hash, epoch))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = round(self.now + TICK_S, 3)
            for here in list(self.members):
                self.tell(here, m.Ticked())

    def until(self, holds: Callable[[], bool], within_s: float) -> float:
        """How long it took; fails if it took longer."""
        began = self.now
        while not holds():
            assert self.now - began < within_s, f"not within {within_s} s"
            self.run(TICK_S)
        return self.now - began

    def kill(self, id_: NodeId) -> None:
        del self.members[id_]

    def split(self, *side: NodeId) -> None:
        others = self.members.keys() - set(side)
        self.cut |= {(a, b) for a in side for b in others} | {(b, a) for a in side for b in others}

    def leaders(self) -> list[NodeId]:
        return [id_ for id_, member in self.members.items() if member.leads]

    def follow(self) -> set[m.Term | None]:
        return {member.master for member in self.members.values()}

    def of_kind(self, id_: NodeId, *kinds: type) -> list[m.Effect]:
        return [effect for effect in self.effects[id_] if isinstance(effect, kinds)]

    def kinds_told(self, id_: NodeId) -> list[str]:
        return [effect.kind for effect in self.effects[id_] if isinstance(effect, m.Tell)]
