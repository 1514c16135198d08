"""Who leads: terms, without a quorum, and sticky: a master stays while those that it leads hear it.

    looking ---- hears a master, both ways, of a term >= the fence ------------> following
    looking ---- nobody heard follows anybody, and its turn has come ----------> leading, in a new term
    following -- its master is not heard both ways any more, or leads no more -> looking
    leading ---- hears a master of a higher term, both ways -------------------> following
    leading ---- hears a node that has obeyed a higher term and looks ---------> leading, in a new term

Laws: the fence never falls; a number that was seen or persisted is never claimed; no node follows a term below
its fence. A looking node waits while a node that it hears follows a master: a one-way cut must not flap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ringleader.cluster.messages import NO_TERM, Beat, Term
from ringleader.values import NodeId

TURN_S = 0.3  # between the claims of two looking nodes: longer than a beat takes to arrive
LISTEN_S = 1.5  # at a start or after a sleep, before anything is claimed: three beats of a master that is there


@dataclass(slots=True)
class Election:
    """Of one node. `number` is the highest that it has seen; `term` what it follows, its own while it leads."""

    me: NodeId
    number: int
    listen_until: float
    term: Term | None = None
    fence: Term = NO_TERM
    looking_since: float = 0.0

    def __post_init__(self) -> None:
        self.fence = Term(self.number, NodeId(""))  # below every claim of that number, above all before it
        self.looking_since = self.listen_until

    @property
    def leads(self) -> bool:
        return self.term is not None and self.term.node == self.me

    def see(self, number: int) -> None:
        """Somebody knows of this number."""
        self.number = max(self.number, number)

    def settle(self, mutual: list[Beat], now: float) -> None:
        """Move as the table says. `mutual` are the last beats of those that hear this node and are heard."""
        masters = [b.follows for b in mutual if b.follows is not None and b.follows.node == b.profile.node]
        best = max((term for term in masters if term >= self.fence), default=None)
        if self.leads:
            if best is not None and best > self.fence:
                self._follow(best)
            elif any(b.follows is None and b.fence > self.fence for b in mutual):
                self._claim()
        elif best is not None:
            self._follow(best)
        else:
            if self.term is not None:
                self.look(now)
            if self._my_turn(mutual, now):
                self._claim()

    def look(self, now: float, listen_s: float = 0.0) -> None:
        """Follow nobody. For `listen_s` nothing is claimed."""
        self.term = None
        self.looking_since = self.listen_until = now + listen_s

    def wait(self, by_s: float) -> None:
        """This process stood still for so long."""
        self.looking_since += by_s
        self.listen_until += by_s

    def _my_turn(self, mutual: list[Beat], now: float) -> bool:
        if any(b.follows is not None for b in mutual):
            return False
        rank = 1 + sum(b.profile.node > self.me for b in mutual)
        return now >= self.looking_since + TURN_S * rank

    def _claim(self) -> None:
        self.number += 1
        self.term = self.fence = Term(self.number, self.me)

    def _follow(self, term: Term) -> None:
        self.term = self.fence = term
        self.see(term.number)


def followers(mutual: Iterable[Beat], term: Term) -> list[Beat]:
    """Those that follow the term."""
    return [beat for beat in mutual if beat.follows == term]
