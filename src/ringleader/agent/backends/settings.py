"""Where a backend's settings come from: arguments first, then the environment. Values are never shown, only names."""

from __future__ import annotations

import os

from ringleader.agent.backends.faults import BackendDenied
from ringleader.errors import BadRequest


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
