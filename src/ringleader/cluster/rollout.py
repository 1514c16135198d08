"""How one model is wanted and served: the standing wish, the ring if it has one, and when to try again.

A rollout outlives its rings: a ring is dropped with a lost node, or given up, and the next plan is made here.
What a model's own files spoilt is not tried again by itself: only a request, a new wish or a new node brings it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ringleader.cluster.messages import Assignment, RingWanted
from ringleader.cluster.requests import Request
from ringleader.cluster.rings import Ring, backoff_s
from ringleader.errors import ModelFault, RingleaderError, RingLost
from ringleader.values import ModelId, NodeId

COOL_DOWN_S = 30.0  # after a ring was given up: requests are told at once instead of waiting for the next failure


@dataclass(slots=True, eq=False)
class Rollout:
    """`reason` is why there is no ring, and what happens next; "" while there is one or never was."""

    model: ModelId
    standing: RingWanted | None = None
    ring: Ring | None = None
    reason: str = ""
    refusals: int = 0
    retry_at: float = 0.0
    resting_until: float | None = None
    at_fault: bool = False  # the last ring was given up because of the model itself
    assignment: Assignment | None = None  # of the ring
    before: Ring | None = None  # dropped, its shards kept for the next plan
    keep_until: float = 0.0
    used_at: float = 0.0  # when a request for the model was last alive
    look_at: float | None = None  # when to see whether another plan would be better

    @property
    def state(self) -> str:
        """The ring's state, or "resting" after one was given up, or "idle"."""
        if self.ring is not None:
            return self.ring.state
        return "idle" if self.resting_until is None else "resting"

    @property
    def serves(self) -> bool:
        return self.ring is not None and self.ring.state == "serving"

    def want(self, event: RingWanted, now: float) -> None:
        """The wish stands from now on; it may be tried at once whatever failed before."""
        self.standing = event
        self.try_soon(now)

    def try_soon(self, now: float) -> None:
        """Something changed (a wish, a node): what failed before may go well now."""
        self.refusals, self.retry_at, self.resting_until, self.at_fault = 0, now, None, False

    def tick(self, now: float) -> None:
        if self.resting_until is not None and now >= self.resting_until:
            self.resting_until = None

    def wishes(self, request: Request | None) -> Iterator[RingWanted]:
        """What to plan, best first: the standing wish (the operator's), then the request's own."""
        if self.standing is not None:
            yield replace(self.standing, costs=(request or self.standing).costs)
        if request is not None:
            yield RingWanted(request.costs, request.wish, request.reference)

    def due(self, now: float) -> bool:
        """Whether the standing wish is to be tried now."""
        wanted = self.standing is not None and self.ring is None and not self.at_fault
        return wanted and self.resting_until is None and now >= self.retry_at

    def refused(self, why: str, now: float) -> None:
        """No plan could be made for the standing wish: later again."""
        self.refusals += 1
        self.retry_at, self.reason = now + backoff_s(self.refusals), why

    def give_up(self, ring: Ring, now: float) -> None:
        self.resting_until = now + COOL_DOWN_S
        self.at_fault = ring.at_fault
        tries = f"{ring.failures} tries in a row failed, the last because "
        self.reason = ring.reason if ring.at_fault else tries + ring.reason

    def node_gone(self, ring: Ring, node: NodeId, why: str, now: float) -> None:
        """The ring is dropped because `node` left."""
        layers = " and ".join(str(stage.layers) for stage in ring.plan.stages if stage.node == node)
        self.reason = f"node {ring.name(node)} is gone with layers {layers} of {self.model} ({why.rstrip('. ')})"
        self.try_soon(now)

    def loss(self) -> RingleaderError:
        """What a request that ran on the ring is told."""
        if self.ring is not None:
            return RingLost(
                f"{self.model} was lost under this request: {self.ring.reason}. The ring is being brought up again."
            )
        if self.resting_until is not None:
            return self.rest()
        return RingLost(f"{self.reason}. What comes next goes to the nodes that are left.")

    def rest(self) -> RingleaderError:
        """What a request is told that waits for a ring that was given up."""
        if self.at_fault:
            return ModelFault(
                f"{self.model} cannot be served: {self.reason}. Mend or remove the model on that node; "
                f"the first request after {COOL_DOWN_S:.0f} s tries again."
            )
        return RingLost(
            f"{self.model} could not be brought up: {self.reason}. The first request after {COOL_DOWN_S:.0f} s "
            "tries again; see the logs of the node that is named.",
            resumable=False,
        )
