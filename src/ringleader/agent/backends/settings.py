"""Where a backend's settings come from: arguments first, then the environment. Values are never shown, only names."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ringleader.agent.backends.faults import BackendDenied
from ringleader.errors import BadRequest

URL_SHOWN_MAX = 200  # in a message: what is longer was pasted by mistake


def needed(given: str | None, what: str, option: str | None, *variables: str) -> str:
    """`given`, or the first of the environment's `variables` that is set.

    Raises:
        BackendDenied: a credential (`option` None: those never go on a command line) is nowhere.
        BadRequest: another setting is nowhere.
    """
    found = given or next((value for name in variables if (value := os.environ.get(name))), "")
    if found:
        return found
    names = " or ".join(variables)
    if option is None:
        raise BackendDenied(f"{what} is missing: set {names}")
    raise BadRequest(f"{what} is missing: say {option}, or set {names}", param=option)


def address(given: str | None, default: str, *variables: str) -> str:
    """The backend's address, without a slash at its end: `given` (--url), or the first of `variables` that is set.

    `default` is what stands when none of them does; "" when there is none.

    Raises:
        BadRequest: nothing says it, or it is no address of a server; names where it was read.
    """
    set_in = next((name for name in variables if os.environ.get(name)), "")
    found = given or (os.environ[set_in] if set_in else default)
    source = "--url" if given or not set_in else set_in
    if not found:
        found = needed(None, "the backend's address", "--url", *variables)
    if wrong := _wrong_with(found):
        raise BadRequest(f"{source}: {wrong}; write http://HOST:PORT or https://HOST", param=source)
    return found.rstrip("/")


def _wrong_with(url: str) -> str:
    """What is wrong with an address, for people. One that has a password in it is not shown: it may be a real one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        why = f" ({error})" if "@" not in url else ""
        return f"{_shown(url)} is no address of a server{why}"
    if "@" in parts.netloc:
        return "an address with a user name or a password is not taken, credentials come from the environment"
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return f"{_shown(url)} is no address of a server"
    if port == 0:
        return f"{_shown(url)} has the port 0, at which nobody can be reached"
    if parts.query or parts.fragment:
        return f"{_shown(url)} has more than a path behind its host: leave out what begins at ? or #"
    return ""


def _shown(url: str) -> str:
    return (
        repr(url if len(url) <= URL_SHOWN_MAX else f"{url[:URL_SHOWN_MAX]}...") if "@" not in url else "what is given"
    )
