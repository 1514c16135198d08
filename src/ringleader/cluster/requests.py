"""The table of accepted requests. Laws: each ends exactly once, by its deadline; the table is bounded.

    accepted -> waiting (no ring serves the model yet) -> running (at a head) -> ended: out of the table

A request that is out of the table is unknown: whatever is heard of it later changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from ringleader.cluster.messages import PlanWish, RequestArrived
from ringleader.config import QUEUE_MAX as QUEUE_MAX
from ringleader.errors import Busy, DeadlinePassed, RingleaderError
from ringleader.values import ModelCosts, ModelId, PlanHash, RequestId

ENDS_COUNTED = 32  # the last answers' ends, which tell how fast places become free
AGAIN_MAX_S = 60.0  # OpenAI's SDKs do not heed a longer one
AGAIN_UNKNOWN_S = 10.0  # while no answer has ended yet


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
    wait_until: float | None = None

    @property
    def model(self) -> ModelId:
        return self.costs.model


class RequestTable:
    """In order of arrival, `limit` at most."""

    def __init__(self, limit: int = QUEUE_MAX) -> None:
        self.limit = limit
        self._live: dict[RequestId, Request] = {}
        self._ends: deque[float] = deque(maxlen=ENDS_COUNTED)
        self._refused = 0  # since places became free

    def __contains__(self, request: RequestId) -> bool:
        return request in self._live

    def accept(self, event: RequestArrived, now: float) -> RingleaderError | None:
        """Take the request in as waiting, or return why not. Its id must not be in the table."""
        if len(self._live) >= self.limit:
            self._refused += 1
            again_s = self._free_in_s(now)
            text = f"{self.limit} requests wait or run, the most that are taken; try again in {again_s:.0f} s"
            return Busy(text, retry_after_s=again_s)
        if not now < event.deadline:
            return DeadlinePassed(f"request {event.request} arrived after its deadline; allow it more time")
        request = Request(event.request, event.costs, event.wish, event.deadline, now, reference=event.reference)
        request.wait_until = event.wait_until
        self._live[event.request] = request
        return None

    def end(self, request: RequestId, now: float | None = None) -> Request | None:
        """Take it out; None if it is not (or no longer) here. `now` where it had its answer."""
        found = self._live.pop(request, None)
        if found is not None:
            self._refused = max(0, self._refused - 1)
            if now is not None:
                self._ends.append(now)
        return found

    def _free_in_s(self, now: float) -> float:
        """When there is a place for the one who was refused last, behind the others who were: by the rate at which
        answers ended, up to this moment."""
        if not self._ends or now <= self._ends[0]:
            return AGAIN_UNKNOWN_S
        each_s = (now - self._ends[0]) / len(self._ends)
        return float(math.ceil(min(AGAIN_MAX_S, max(1.0, self._refused * each_s))))

    def impatient(self, model: ModelId, now: float) -> list[Request]:
        """Those that wait and want to be told by now if their model is not there."""
        waiting = self.waiting(model)
        return [each for each in waiting if each.wait_until is not None and now >= each.wait_until]

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
