"""What a node does around its Leadership while it leads: who follows, what they report, and orders made into words.

Laws: a node belongs to the leadership while its beats say, both ways, that it follows this very term; a new process
of a node is a new member; every order carries the term.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringleader.cluster import messages as m
from ringleader.cluster.holdings import Holdings
from ringleader.cluster.leadership import Leadership
from ringleader.cluster.membership import Membership, Peer
from ringleader.values import ModelId, NodeId

ROUNDS_MAX = 8  # of reports from this node's own shards to its leadership in one step; two settle everything


class Leading:
    """One node's time as master."""

    def __init__(
        self,
        me: m.NodeProfile,
        term: m.Term,
        holdings: Holdings,
        idle_unload_s: float | None,
        queue_max: int,
        now: float,
    ) -> None:
        self.leadership = Leadership(me, term, now, idle_unload_s, queue_max)
        self._me = me
        self._term = term
        self._holdings = holdings
        self._reported_version = -1  # of the holdings
        self._followers: dict[NodeId, int] = {}  # and their incarnations
        self._wants_heard: set[tuple[ModelId, m.PlanWish]] = set()

    def renew(self, term: m.Term) -> None:
        """Lead on in a later term."""
        self._term = term
        self.leadership.renew(term)

    def tend(
        self,
        event: m.Event,
        members: Membership,
        profile: m.NodeProfile,
        wants: Iterable[m.RingWanted],
        now: float,
    ) -> list[m.Effect]:
        """Let the leadership hear what the event means to it, and what this node's own shards and wishes are."""
        if isinstance(event, m.NodeReported):
            self._me, self._reported_version = profile, -1
        effects = self._report_own(now)  # first of all: what this node holds already is not planned again
        for news in [*self._of_followers(event, members, now), *self._fresh(wants)]:
            effects += self._hear(news, now)
        match event:
            case m.Ticked():
                if all(peer.node in self._followers for peer in members.heard(now)):
                    self.leadership.everyone_is_here()
                effects += self._hear(event, now)
            case m.RingLinked() | m.RingBroke() | m.RequestArrived() | m.RequestEnded() | m.RequestCancelled():
                effects += self._hear(event, now)
        return effects + self._report_own(now)

    def _report_own(self, now: float) -> list[m.Effect]:
        """What follows from this node's own shards, until nothing more does."""
        effects: list[m.Effect] = []
        for _ in range(ROUNDS_MAX):
            if self._reported_version == self._holdings.version:
                break
            self._reported_version = self._holdings.version
            own = m.NodeReported(self._me.node, self._me.memory_free_bytes, self._holdings.reports(now), self._me)
            effects += self._hear(own, now)
        return effects

    def _of_followers(self, event: m.Event, members: Membership, now: float) -> list[m.Event]:
        if isinstance(event, m.Ticked):
            gone = [members.peer(node) for node in self._followers]
            return [self._lost(p, p.reason) for p in gone if p is not None and p.silent(p.followed_at, now)]
        peer = members.peer(event.peer) if isinstance(event, m.Heard) else None
        if not isinstance(event, m.Heard) or peer is None or peer.beat is None or peer.beat is not event.word:
            return []  # an order, or a beat that came late
        beat, news = peer.beat, list[m.Event]()
        known = self._followers.get(peer.node)
        if known is not None and known != beat.incarnation:
            news.append(self._lost(peer, "it started anew"))
        elif known is not None and beat.leaving:
            news.append(self._lost(peer, peer.reason))
        elif known is not None and beat.follows is not None and beat.follows > self._term:
            news.append(self._lost(peer, "it follows another master"))
        if beat.follows == self._term and self._me.node in beat.hears and not beat.leaving:
            peer.followed_at = now
            if peer.node not in self._followers:
                self._followers[peer.node] = beat.incarnation
                news.append(m.NodeJoined(beat.profile, beat.shards))
            else:
                free = beat.profile.memory_free_bytes
                news.append(m.NodeReported(peer.node, free, beat.shards, beat.profile))
            news += self._fresh(beat.wants)
        return news

    def _lost(self, peer: Peer, reason: str) -> m.NodeLost:
        del self._followers[peer.node]
        return m.NodeLost(peer.node, reason or "it is not heard any more")

    def _fresh(self, wants: Iterable[m.RingWanted]) -> list[m.Event]:
        """The operators' wishes that this leadership has not heard yet."""
        fresh: list[m.Event] = []
        for want in wants:
            if (key := (want.costs.model, want.wish)) not in self._wants_heard:
                self._wants_heard.add(key)
                fresh.append(want)
        return fresh

    def _hear(self, event: m.Event, now: float) -> list[m.Effect]:
        """One step of the leadership; its decisions about shards become orders."""
        carried_out: list[m.Effect] = []
        for effect in self.leadership.step(event, now):
            match effect:
                case m.StartShard(node, plan, index, attempt, instead_of):
                    assignment = self.leadership.assignment(plan.hash)
                    if assignment is not None:
                        order = m.StartOrder(self._term, assignment, index, attempt, instead_of)
                        carried_out += (
                            self._holdings.start(order, now) if node == self._me.node else [m.Send(node, order)]
                        )
                case m.StopShard(node, plan_hash, index):
                    if node == self._me.node:
                        carried_out += self._holdings.stop(plan_hash, index, now)
                    else:
                        carried_out.append(m.Send(node, m.StopOrder(self._term, plan_hash, index)))
                case _:
                    carried_out.append(effect)
        return carried_out
