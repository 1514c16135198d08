"""Errors to what a caller is told of them: one table for all APIs. Each API's form is in `error_forms`.

Nothing that is not written for the caller leaves here: of an error that is ours, only that there was one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ringleader.errors import (
    Busy,
    CallerFault,
    DeadlinePassed,
    Forbidden,
    ModelDoesNotFit,
    ModelFault,
    ModelUnsupported,
    NoKey,
    NotFound,
    OurFault,
    PeerFault,
    RingleaderError,
    UnknownModel,
)

RETRY_AFTER_S = 2  # about the time in which a full queue has moved on by one short answer
INTERNAL = "Ringleader hit an error of its own. The node's log has it under this request's id"

# What each API has its own word for. "invalid" is the caller's to mend, "unavailable" and "timeout" are the ring's.
Kind = Literal[
    "invalid",
    "unauthorized",
    "forbidden",
    "not_found",
    "too_large",
    "busy",
    "unavailable",
    "timeout",
    "unserved",  # what this server never does, whatever the request
    "internal",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one class of errors is told. `retry` says whether the same request may succeed a little later."""

    kind: Kind
    status: int
    retry: bool = False

    @property
    def hidden(self) -> bool:
        """Whether its text is for the log only."""
        return self is INTERNAL_RULE


INTERNAL_RULE = Rule("internal", 500)

# First match wins, so a class stands before its parents. The status is HTTP's; an API may have its own for the kind.
TABLE: tuple[tuple[type[RingleaderError], Rule], ...] = (
    (UnknownModel, Rule("not_found", 404)),
    (NotFound, Rule("not_found", 404)),
    (NoKey, Rule("unauthorized", 401)),
    (Forbidden, Rule("forbidden", 403)),
    (CallerFault, Rule("invalid", 400)),
    (Busy, Rule("busy", 429, retry=True)),
    (DeadlinePassed, Rule("timeout", 504)),
    (PeerFault, Rule("unavailable", 503, retry=True)),
    (ModelDoesNotFit, Rule("unavailable", 503)),
    (ModelUnsupported, Rule("invalid", 400)),
    (ModelFault, Rule("unavailable", 500)),
    (OurFault, INTERNAL_RULE),
    (RingleaderError, INTERNAL_RULE),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a caller is told, before any API's form. `param` is the field as the caller wrote it."""

    kind: Kind
    status: int
    message: str
    param: str | None = None
    code: str | None = None
    retry: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def rule_of(error: BaseException) -> Rule:
    """The table's line for `error`; exceptions that are not ours are our fault."""
    return next((rule for kind, rule in TABLE if isinstance(error, kind)), INTERNAL_RULE)


def fault_of(error: BaseException, request_id: str) -> Fault:
    """What is told of `error`, with its text only where that was written for the caller."""
    rule = rule_of(error)
    if rule.hidden or not isinstance(error, RingleaderError):
        return Fault("internal", 500, f"{INTERNAL} ({request_id}).", code="internal_error")
    param = error.param if isinstance(error, CallerFault) else None
    return Fault(rule.kind, rule.status, str(error), param, error.code, rule.retry, _headers_of(error))


def _headers_of(error: RingleaderError) -> Mapping[str, str]:
    if isinstance(error, PeerFault) and error.retry_after_s is not None:
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    if isinstance(error, Busy):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, NoKey) else {}
