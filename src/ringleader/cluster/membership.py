"""Who is heard: the beats of the other nodes, how old they are, and how the others can be dialled.

Laws: a beat that came late, or of a process that was replaced, changes nothing; a peer is heard while its last
beat is younger than LOST_AFTER_S, or SUSPECTED_FOR_S when a stream to it broke; the table is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ringleader.cluster.messages import Beat, Contact
from ringleader.values import NodeId

BEAT_S = 0.4
LOST_AFTER_S = 2.0  # five beats: fewer would take a busy machine's hiccup for a death
SUSPECTED_FOR_S = 1.0  # of silence after a stream broke: time to dial anew, and for the beat that clears it
FORGET_AFTER_S = 600.0
PEERS_MAX = 64  # twice what the mesh is built for
ADDRESSES_MAX = 8  # a peer: cable, Wi-Fi, Thunderbolt, each IPv4 and IPv6
NUMBER_MAX = 2**31  # terms; a higher one is a broken file or worse, and epochs have 32 bits for it

NEVER = float("-inf")


@dataclass(slots=True)
class Peer:
    """`followed_at` is when its beat last said that it follows the term of this node."""

    node: NodeId
    beat: Beat | None = None
    heard_at: float = NEVER
    followed_at: float = NEVER
    suspected_at: float | None = None
    reason: str = ""  # why it is suspected, or left
    met: bool = False  # a stream to it stood once: beats are sent, the transport drops what cannot go
    addresses: list[str] = field(default_factory=list)

    def silent(self, since: float, now: float) -> bool:
        """Whether nothing that came at `since` is young enough to count now."""
        if now - since >= LOST_AFTER_S:
            return True
        return self.suspected_at is not None and now - self.suspected_at >= SUSPECTED_FOR_S


class Membership:
    """Of one node, about the others. In order of first hearing."""

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self._peers: dict[NodeId, Peer] = {}

    def peers(self) -> list[Peer]:
        return list(self._peers.values())

    def peer(self, node: NodeId) -> Peer | None:
        return self._peers.get(node)

    def meet(self, node: NodeId, now: float) -> Peer | None:
        """The peer's row, made if need be; None for this node itself, or when the table is full of the living."""
        if node == self._me:
            return None
        if node not in self._peers:
            if len(self._peers) >= PEERS_MAX:
                self._forget_one(now)
            if len(self._peers) >= PEERS_MAX:
                return None
            self._peers[node] = Peer(node)
        return self._peers[node]

    def hear(self, node: NodeId, beat: Beat, now: float) -> bool:
        """Take a beat in; False when it is late, not the sender's own, or from nobody that there is room for."""
        if beat.profile.node != node or _number(beat) > NUMBER_MAX or (peer := self.meet(node, now)) is None:
            return False
        last = peer.beat
        if last is not None and (beat.incarnation, beat.count) <= (last.incarnation, last.count):
            return False
        peer.beat = beat
        peer.heard_at = NEVER if beat.leaving else now
        peer.suspected_at = None
        peer.reason = "it was stopped" if beat.leaving else ""
        return True

    def suspect(self, node: NodeId, reason: str, now: float) -> None:
        """A stream to it broke."""
        peer = self._peers.get(node)
        if peer is not None and peer.suspected_at is None:
            peer.suspected_at, peer.reason = now, reason

    def heard(self, now: float) -> list[Peer]:
        """Those whose beats arrive here."""
        return [peer for peer in self._peers.values() if not peer.silent(peer.heard_at, now)]

    def mutual(self, now: float) -> list[Beat]:
        """The last beats of those that hear this node too."""
        return [p.beat for p in self.heard(now) if p.beat is not None and self._me in p.beat.hears]

    def number_max(self) -> int:
        """The highest term number that anybody was heard to know of."""
        return max((_number(p.beat) for p in self._peers.values() if p.beat is not None), default=0)

    def contacts(self, now: float) -> tuple[Contact, ...]:
        """How others can dial those that are heard here."""
        beats = [p.beat for p in self.heard(now) if p.beat is not None]
        return tuple(Contact(b.profile.node, b.profile.control) for b in beats if b.profile.control)

    def learn(self, node: NodeId, addresses: Iterable[str], now: float) -> tuple[str, ...]:
        """Addresses of a peer; those of them that are new."""
        peer = self.meet(node, now)
        if peer is None:
            return ()
        fresh = tuple(a for a in dict.fromkeys(addresses) if a not in peer.addresses)
        peer.addresses = [*peer.addresses, *fresh][-ADDRESSES_MAX:]
        return fresh

    def shift(self, by_s: float) -> None:
        """This process stood still for so long: it was deaf, the others were not silent."""
        for peer in self._peers.values():
            peer.heard_at += by_s
            peer.followed_at += by_s
            if peer.suspected_at is not None:
                peer.suspected_at += by_s

    def forget_heard(self) -> None:
        """All that was heard is stale; who was heard stays known."""
        for peer in self._peers.values():
            peer.heard_at = peer.followed_at = NEVER

    def _forget_one(self, now: float) -> None:
        gone = [p for p in self._peers.values() if now - p.heard_at >= FORGET_AFTER_S]
        if gone:
            del self._peers[min(gone, key=lambda peer: peer.heard_at).node]


def _number(beat: Beat) -> int:
    return max(beat.fence.number, beat.follows.number if beat.follows is not None else 0)
