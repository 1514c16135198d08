"""What goes wrong at a provider, in our errors: both SDKs raise alike-named exceptions, and one table reads them.

BackendDenied    the credentials are missing or wrong                      the caller's
BackendRefused   the provider says that the request is wrong               the caller's
BackendBusy      too many requests, still after the SDK's retries          try later
BackendFailed    the provider broke, was cut off or took too long          try again
BackendGarbled   what came is no answer of the protocol                    not that provider, or a broken one
NodeUnreachable  nobody answers at the address
"""

from __future__ import annotations

from typing import Any

from ringleader.errors import Busy, CallerFault, ContextTooLong, NodeUnreachable, PeerFault, RingleaderError

WAIT_LENGTH_MAX = 9  # digits of a Retry-After: thirty years
DETAIL_LENGTH_MAX = 500  # of a provider's own words: some answer with a whole web page


class BackendDenied(CallerFault):
    """No credentials, or such as the provider does not take."""

    code = "backend_denied"


class BackendRefused(CallerFault):
    """The provider refuses the request itself; sending it again changes nothing."""

    code = "backend_refused"


class BackendBusy(Busy):
    """The provider's rate limit, or its overload, outlasted the retries."""

    code = "backend_busy"


class BackendFailed(PeerFault):
    """The provider broke, went away in the middle of its answer, or took too long."""

    code = "backend_failed"


class BackendGarbled(PeerFault):
    """An answer came that is none of the protocol."""

    code = "backend_garbled"


def fault_of_status(status: int, detail: str, who: str, hint: str, wait: str = "") -> RingleaderError:
    """The fault of an HTTP status; `hint` says where the credentials come from, `wait` is the answer's Retry-After."""
    said = f"{who} answered {status}: {shortened(detail)}"
    if status in (401, 403):
        return BackendDenied(f"{said}. {hint}")
    if status in (429, 529):
        asks = f"It asks to wait {int(wait):,} s" if wait.isdecimal() and len(wait) < WAIT_LENGTH_MAX else "Wait"
        return BackendBusy(f"{said}. {asks}, or ask for less")
    if "context_length_exceeded" in detail or "prompt is too long" in detail:
        return ContextTooLong(f"{said}. Give the step less to read, or bound its turns")
    if 400 <= status < 500 and status != 408:
        return BackendRefused(said)
    return BackendFailed(f"{said}. Try again")


def fault_in_stream(detail: str, who: str) -> RingleaderError:
    """The fault of an error that a stream holds; providers say there in words what is a status elsewhere."""
    said = f"{who} failed in the middle of its answer: {shortened(detail)}"
    if "overloaded" in detail.lower() or "rate_limit" in detail:
        return BackendBusy(f"{said}. Wait a while")
    return BackendFailed(said)


def fault_of_connection(error: BaseException, who: str, hint: str) -> RingleaderError:
    """The fault of a connection that was not made, or was lost (the SDKs raise one kind for both)."""
    cause = error.__cause__ or error
    kind = type(cause).__name__
    if "Connect" in kind or "UnsupportedProtocol" in kind or "InvalidURL" in kind:
        return NodeUnreachable(f"{who} cannot be reached ({kind}). {hint}")
    return BackendFailed(f"{who} was lost in the middle of an answer ({kind}). Try again")


def detail_of(body: Any, fallback: str) -> str:
    """The provider's own words: {"error": {"message", "code"}}, {"message"}, or whatever else it wrote."""
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        words = [str(inner[key]) for key in ("message", "code") if inner.get(key)]
        return " · ".join(words) or fallback
    return str(inner) if inner else fallback


def shortened(text: str) -> str:
    """`text` on one line and not for ever."""
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_LENGTH_MAX else line[:DETAIL_LENGTH_MAX] + "…"
