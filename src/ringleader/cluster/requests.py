"""The table of accepted requests. Laws: each ends exactly once, by its deadline; the table is bounded.

    accepted -> waiting (no ring serves the model yet) -> running (at a head) -> ended: out of the table

A request that is out of the table is unknown: whatever is heard of it later changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringleader.cluster.messages import PlanWish, RequestArrived
from ringleader.errors import Busy, DeadlinePassed, RingleaderError
from ringleader.values import ModelCosts, ModelId, PlanHash, RequestId

# Requests accepted and not ended, waiting or running. A ring of Macs answers some hundred short requests a
# minute, so that the last in a longer queue would meet its client's own timeout.
QUEUE_MAX = 256


@dataclass(slots=True)
class Request:
    """`plan` is the ring that runs it; None while it waits."""

    request: RequestId
    costs: ModelCosts
    wish: PlanWish
    deadline: float
    arrived: float
    plan: PlanHash | None = None
    reference: str = ""

    @property
    def model(self) -> ModelId:
        return self.costs.model


class RequestTable:
    """In order of arrival."""

    def __init__(self) -> None:
        self._live: dict[RequestId, Request] = {}

    def __contains__(self, request: RequestId) -> bool:
        return request in self._live

    def accept(self, event: RequestArrived, now: float) -> RingleaderError | None:
        """Take the request in as waiting, or return why not. Its id must not be in the table."""
        if len(self._live) >= QUEUE_MAX:
            return Busy(f"{QUEUE_MAX} requests wait or run, the most that are taken; try again in a few seconds")
        if not now < event.deadline:
            return DeadlinePassed(f"request {event.request} arrived after its deadline; allow it more time")
        request = Request(event.request, event.costs, event.wish, event.deadline, now, reference=event.reference)
        self._live[event.request] = request
        return None

    def end(self, request: RequestId) -> Request | None:
        """Take it out; None if it is not (or no longer) here."""
        return self._live.pop(request, None)

    def overdue(self, now: float) -> list[Request]:
        return [request for request in self._live.values() if not now < request.deadline]

    def waiting(self, model: ModelId) -> list[Request]:
        return [r for r in self._live.values() if r.plan is None and r.model == model]

    def running(self, model: ModelId) -> list[Request]:
        return [r for r in self._live.values() if r.plan is not None and r.model == model]

    def live(self, model: ModelId) -> bool:
        """Whether any request for the model waits or runs."""
        return any(request.model == model for request in self._live.values())

    def all(self) -> list[Request]:
        return list(self._live.values())

    def counts(self) -> tuple[int, int]:
        """How many wait and how many run, over all models."""
        waiting = sum(request.plan is None for request in self._live.values())
        return waiting, len(self._live) - waiting


def overdue_error(request: Request, now: float) -> DeadlinePassed:
    """What an overdue request is told: where its time went."""
    spent = f"request {request.request} reached its deadline after {now - request.arrived:.0f} s"
    if request.plan is None:
        return DeadlinePassed(f"{spent}, waiting for {request.model} to be ready; load it first or allow more time")
    return DeadlinePassed(f"{spent}, while it was being answered; ask for fewer tokens or allow more time")
