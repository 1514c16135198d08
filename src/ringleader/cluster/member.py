"""The whole control plane of a node as one method: `step(event, now) -> effects`. Every node runs the same.

Hears the others (membership), finds who leads (election), runs the shards that the master orders (holdings) and,
while it leads itself, has a Leadership. Laws: an order is obeyed only from the master that is followed now, in
its term; a term is persisted before anyone hears of it; no sequence of events makes `step` raise.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ringleader.cluster import messages as m
from ringleader.cluster.election import LISTEN_S, Election
from ringleader.cluster.holdings import Holdings
from ringleader.cluster.leadership import TELLS_MAX
from ringleader.cluster.leading import Leading
from ringleader.cluster.membership import BEAT_S, LOST_AFTER_S, NEVER, Membership
from ringleader.cluster.requests import QUEUE_MAX
from ringleader.cluster.snapshot import ClusterSnapshot, TellRow, take_member_snapshot
from ringleader.errors import MasterMoved, RingleaderError
from ringleader.values import ModelId, NodeId

IDLE_UNLOAD_S = 1800.0  # of nobody asking: its owner wants the memory back; what an operator wants stays
PAUSE_S = 1.0  # between two steps, which come ten a second: longer, and this process stood still


class Member:
    """`incarnation` must be greater at each start of the same node (the wall clock's nanoseconds, or one more than
    the last where the clock went back); `persisted_term` is what the last PersistTerm wrote, 0 at first.
    `now` is any clock in seconds that does not go back; the same for all calls.
    """

    def __init__(
        self,
        me: m.NodeProfile,
        incarnation: int,
        persisted_term: int = 0,
        *,
        listen_s: float = LISTEN_S,
        idle_unload_s: float | None = IDLE_UNLOAD_S,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self._profile = me
        self._incarnation = incarnation
        self._persisted = persisted_term
        self._listen_s = listen_s
        self._idle_unload_s = idle_unload_s
        self._queue_max = queue_max
        self._members = Membership(me.node)
        self._election: Election | None = None  # from the first step on, which brings the clock
        self._holdings = Holdings()
        self._leading: Leading | None = None
        self._wants: dict[ModelId, m.RingWanted] = {}
        self._followed: m.Term | None = None  # as the effects have told
        self._told_version = 0  # of the holdings, in the beats
        self._beats = 0
        self._beat_at = NEVER
        self._urgent = False
        self._leaving = False
        self._last_step: float | None = None
        self._namesakes: set[NodeId] = set()
        self._tells: deque[TellRow] = deque(maxlen=TELLS_MAX)

    # ------------------------------------------------------------ what is asked of it

    @property
    def leads(self) -> bool:
        return self._leading is not None

    @property
    def master(self) -> m.Term | None:
        """The term that this node follows, its own while it leads."""
        return self._election.term if self._election is not None else None

    def step(self, event: m.Event, now: float) -> list[m.Effect]:
        """What is to be done about `event`, in this order."""
        election = self._begin(now)
        effects = self._hear(event, election, now)
        if not self._leaving:
            effects += self._elect(election, now)
            if self._leading is not None:
                effects += self._leading.tend(event, self._members, self._profile, self._wants.values(), now)
        if isinstance(event, m.RequestArrived) and self._leading is None:
            effects.append(m.FailRequest(event.request, self._not_master()))
        effects += self._beat(election, now)
        self._tells.extend(TellRow(now, e.text, e.model, e.kind) for e in effects if isinstance(e, m.Tell))
        return effects

    def heard(self) -> list[m.NodeProfile]:
        """The nodes whose beats arrive here, whomever they follow, and this node first."""
        beats = [peer.beat for peer in self._members.heard(self._last_step or 0.0)]
        return [self._profile, *(beat.profile for beat in beats if beat is not None)]

    def reports(self) -> list[tuple[NodeId, m.ShardReport]]:
        """The shards of all nodes that are heard, and this node's own."""
        now = self._last_step or 0.0
        own = [(self._profile.node, report) for report in self._holdings.reports(now)]
        heard = [(peer.node, peer.beat) for peer in self._members.heard(now) if peer.beat is not None]
        return own + [(node, report) for node, beat in heard for report in beat.shards]

    def snapshot(self) -> ClusterSnapshot:
        """What this node believes: all of it while it leads, else what beats tell."""
        term = self.master
        now = self._last_step or 0.0
        heard = [peer.beat for peer in self._members.heard(now) if peer.beat is not None]
        if self._leading is not None and term is not None:
            shot = self._leading.leadership.snapshot()
            return replace(shot, term=term, tells=tuple(self._tells))
        return take_member_snapshot(self._profile, term, heard, self._holdings.reports(now), self._tells)

    # ------------------------------------------------------------ what is heard

    def _begin(self, now: float) -> Election:
        """The clock moves on; a standstill of this process is no silence of the others."""
        if self._election is None:
            self._election = Election(self._profile.node, self._persisted, now + self._listen_s)
        elif self._last_step is not None and (gap := now - self._last_step) >= PAUSE_S:
            self._members.shift(gap)
            self._election.wait(gap)
        self._last_step = now
        return self._election

    def _hear(self, event: m.Event, election: Election, now: float) -> list[m.Effect]:
        match event:
            case m.Heard(peer, m.Beat() as beat):
                return self._beat_heard(peer, beat, election, now)
            case m.Heard(peer, (m.StartOrder() | m.StopOrder()) as order):
                obeyed = election.term is not None and order.term == election.term and peer == order.term.node
                return self._obey(order, now) if obeyed and not election.leads and not self._leaving else []
            case m.PeerFound():
                return self._peer_found(event, now)
            case m.PeerUp():
                return self._peer_up(event.node, election, now)
            case m.PeerDown():
                self._members.suspect(event.node, event.reason, now)
                return []
            case m.Woke():
                return self._woke(event.slept_s, election, now)
            case m.StopAsked():
                return self._stop_asked(election, now)
            case m.ShardBecameReady() | m.ShardMadeProgress() | m.ShardDied():
                self._holdings.hear(event, now)
                return []
            case m.NodeReported():
                return self._self_reported(event)
            case m.RingWanted():
                self._wants[event.costs.model] = event
                return []
            case _:
                return []  # while this node leads, its leadership hears it

    def _beat_heard(self, node: NodeId, beat: m.Beat, election: Election, now: float) -> list[m.Effect]:
        before = self._members.peer(node)
        known = before is not None and before.beat is not None and not before.silent(before.heard_at, now)
        if not self._members.hear(node, beat, now):
            return []
        election.see(self._members.number_max())
        effects: list[m.Effect] = []
        self._urgent = self._urgent or not known  # that it is heard must reach it soon
        effects += self._dial(node, beat.profile.control, now)
        for contact in beat.contacts:
            effects += self._dial(contact.node, contact.addresses, now)
        if beat.profile.name == self._profile.name and node not in self._namesakes:
            self._namesakes.add(node)
            text = f"another node, at {beat.profile.host}, is called {beat.profile.name} too; give one another --name"
            effects.append(m.Tell(text, kind="name_taken"))
        return effects

    def _dial(self, node: NodeId, addresses: tuple[str, ...], now: float) -> list[m.Effect]:
        fresh = self._members.learn(node, addresses, now) if addresses else ()
        return [m.Dial(fresh, node)] if fresh else []

    def _peer_found(self, event: m.PeerFound, now: float) -> list[m.Effect]:
        if event.node is None:
            return [m.Dial(event.addresses)]
        return self._dial(event.node, event.addresses, now)

    def _peer_up(self, node: NodeId, election: Election, now: float) -> list[m.Effect]:
        peer = self._members.meet(node, now)
        if peer is None:
            return []
        peer.met = True
        self._urgent = True
        return []

    def _woke(self, slept_s: float, election: Election, now: float) -> list[m.Effect]:
        """The others went on meanwhile: nothing is decided before they were listened to."""
        if slept_s < LOST_AFTER_S:
            return []
        why = f"this machine slept for {slept_s:.0f} s"
        effects: list[m.Effect] = [m.Tell(why, kind="woke"), m.Redial()]
        if any(peer.beat is not None for peer in self._members.peers()):  # a node that is alone has missed nothing
            effects += self._step_down(why)
            election.look(now, self._listen_s)
            self._urgent = True
        self._members.forget_heard()
        return effects

    def _stop_asked(self, election: Election, now: float) -> list[m.Effect]:
        effects = self._step_down("this node was told to stop")
        election.look(now)
        self._leaving, self._urgent = True, True
        return [*effects, m.FollowMaster(None)]

    def _self_reported(self, event: m.NodeReported) -> list[m.Effect]:
        if event.node == self._profile.node:
            profile = event.profile if event.profile is not None else self._profile
            self._profile = replace(
                profile,
                node=self._profile.node,
                memory_free_bytes=event.memory_free_bytes,
                memory_held_bytes=self._holdings.held_bytes(),
            )
        return []

    def _obey(self, order: m.StartOrder | m.StopOrder, now: float) -> list[m.Effect]:
        if isinstance(order, m.StartOrder):
            return self._holdings.start(order, now)
        return self._holdings.stop(order.plan, order.index, now)

    def _not_master(self) -> RingleaderError:
        term = self.master
        where = "it follows no master at this moment" if term is None else f"its master is {self._name(term.node)}"
        return MasterMoved(f"this node does not lead: {where}. Send the request there.")

    def _name(self, node: NodeId) -> str:
        peer = self._members.peer(node)
        known = peer.beat.profile if peer is not None and peer.beat is not None else None
        return self._profile.name if node == self._profile.node else known.name if known is not None else str(node)

    # ------------------------------------------------------------ who leads

    def _elect(self, election: Election, now: float) -> list[m.Effect]:
        before = self._followed
        election.settle(self._members.mutual(now), now)
        term = election.term
        if term == before:
            return []
        self._followed, self._urgent = term, True
        effects: list[m.Effect] = []
        if term is not None and term.number > self._persisted:
            self._persisted = term.number
            effects.append(m.PersistTerm(term.number))
        if self._leading is not None and term is not None and election.leads:
            self._leading.renew(term)
            text = f"this node goes on as master in term {term.number}: a node has obeyed a later one than before"
            return [*effects, m.Tell(text, kind="master_elected"), m.FollowMaster(term)]
        if term is not None:
            effects += self._step_down(f"{self._name(term.node)} is master now, in term {term.number}")
            effects.append(_elected(self._name(term.node), term, election.leads))
        elif before is not None:
            peer = self._members.peer(before.node)
            left = peer is not None and peer.beat is not None and peer.beat.leaving
            why = "was stopped" if left else "is not heard any more"
            text = f"the master {self._name(before.node)} {why}; looking for another"
            effects.append(m.Tell(text, kind="master_lost"))
        if term is not None and election.leads:
            self._leading = Leading(self._profile, term, self._holdings, self._idle_unload_s, self._queue_max, now)
        return [*effects, m.FollowMaster(term)]

    def _step_down(self, why: str) -> list[m.Effect]:
        leading, self._leading = self._leading, None
        if leading is None:
            return []
        return [*leading.leadership.resign(why), m.Tell(f"not master any more: {why}", kind="stepped_down")]

    # ------------------------------------------------------------ beats

    def _beat(self, election: Election, now: float) -> list[m.Effect]:
        """One to every peer when it is time, or at once when something changed that others wait for."""
        fresh = self._urgent or self._told_version != self._holdings.version
        if not fresh and now - self._beat_at < BEAT_S:
            return []
        self._beats += 1
        self._beat_at, self._urgent, self._told_version = now, False, self._holdings.version
        heard = self._members.heard(now)
        beat = m.Beat(
            profile=self._profile,
            incarnation=self._incarnation,
            count=self._beats,
            follows=election.term,
            fence=election.fence,
            hears=tuple(peer.node for peer in heard),
            contacts=self._members.contacts(now),
            shards=self._holdings.reports(now),
            wants=tuple(self._wants.values()),
            leaving=self._leaving,
        )
        return [m.Send(peer.node, beat) for peer in self._members.peers() if peer.met]


def _elected(name: str, term: m.Term, leads: bool) -> m.Tell:
    if leads:
        return m.Tell(f"this node is master now, in term {term.number}", kind="master_elected")
    return m.Tell(f"{name} is master, in term {term.number}", kind="master_followed")
