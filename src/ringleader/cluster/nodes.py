"""The nodes that are here, and how much of their memory a new plan may count on.

A node reports what is free now. That already lacks what our loaded shards hold, and does not yet lack what
was promised to shards that still load or whose caches are still empty; both are set right here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ringleader.cluster.messages import NodeProfile, RingWanted
from ringleader.values import NodeId

LOST_NODES_MAX = 4  # remembered for the status page only, and
LOST_SHOWN_S = 300.0  # for so long: whoever looks what happened looks soon
SUFFIX_CHARS = 4  # of a node's id, to tell two of one name apart


@dataclass(frozen=True, slots=True)
class LostNode:
    profile: NodeProfile
    reason: str
    at: float


@dataclass(slots=True)
class _Node:
    profile: NodeProfile  # with the name that is shown
    called: str  # the name that it gave itself
    unloaded_bytes: int  # what would be free if this cluster had no shard on the node, as of the last report


class NodeTable:
    """The master itself is always here, and first."""

    def __init__(self, me: NodeProfile) -> None:
        self.me = me.node
        self._here: dict[NodeId, _Node] = {}
        self._lost: dict[NodeId, LostNode] = {}
        self.join(me)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._here

    def join(self, profile: NodeProfile) -> None:
        """A node is here, or (the master) describes itself anew."""
        self._lost.pop(profile.node, None)
        shown = self._shown_name(profile)
        free = profile.memory_free_bytes + profile.memory_held_bytes
        self._here[profile.node] = _Node(replace(profile, name=shown), profile.name, free)

    def report(self, node: NodeId, free_bytes: int, profile: NodeProfile | None = None) -> None:
        """What is free there now; `profile` where the rest changed too."""
        here = self._here[node]
        known = here.profile if profile is None else replace(profile, name=here.profile.name)
        profile = replace(known, memory_free_bytes=free_bytes)
        self._here[node] = _Node(profile, here.called, free_bytes + profile.memory_held_bytes)

    def lose(self, node: NodeId, reason: str, now: float) -> None:
        self._lost[node] = LostNode(self._here.pop(node).profile, reason, now)
        while len(self._lost) > LOST_NODES_MAX:
            del self._lost[next(iter(self._lost))]

    def forget_lost(self, now: float) -> None:
        """Those that were lost long ago are not shown any more."""
        self._lost = {node: lost for node, lost in self._lost.items() if now - lost.at < LOST_SHOWN_S}

    def free_bytes(self, node: NodeId) -> int:
        """What the node last reported as free, whatever was promised of it."""
        return self._here[node].profile.memory_free_bytes if node in self._here else 0

    def called(self, name: str) -> list[NodeProfile]:
        """The nodes that call themselves so, as they are shown."""
        return [here.profile for here in self._here.values() if here.called == name]

    def _shown_name(self, profile: NodeProfile) -> str:
        """Its own name, unless a node that came before has it already."""
        taken = {here.profile.name for node, here in self._here.items() if node != profile.node}
        return f"{profile.name}~{profile.node[-SUFFIX_CHARS:]}" if profile.name in taken else profile.name

    def name(self, node: NodeId) -> str:
        """The node's name for people; its id if it never was here."""
        here = self._here.get(node)
        lost = self._lost.get(node)
        return here.profile.name if here else lost.profile.name if lost else str(node)

    def profiles(self) -> list[NodeProfile]:
        """As last reported, the master first."""
        return [node.profile for node in self._here.values()]

    def lost(self) -> list[LostNode]:
        return list(self._lost.values())

    def plannable(self, promised: Iterable[tuple[NodeId, int]]) -> list[NodeProfile]:
        """The nodes with the memory that a new plan may use: `promised` is what every shard of a living
        plan was planned with, whether it has taken that memory yet or not."""
        free = {node: here.unloaded_bytes for node, here in self._here.items()}
        for node, size in promised:
            if node in free:
                free[node] -= size
        return [replace(here.profile, memory_free_bytes=free[node]) for node, here in self._here.items()]


def can_hold(node: NodeProfile, wanted: RingWanted) -> bool:
    """Whether the node has the model's files, as far as it tells. A path may be a way to them on any node, and who
    places layers by hand has reasons."""
    if node.holds is None or wanted.wish.layers or wanted.reference.startswith("/"):
        return True
    return wanted.costs.digest in node.holds
