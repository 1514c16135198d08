"""Who may speak to the API: a bearer key where one is set, and no web page of a stranger where none is.

A browser on this machine reaches loopback too. A page that does so shows itself by its Origin header, or, when its own
name was re-pointed at 127.0.0.1 (DNS rebinding), by a Host that is a foreign name.
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ringleader.api.fault_table import Fault
from ringleader.api.faults import fault_response

OPEN_PATHS = {"/", "/health"}
# Names that no public DNS answers for, so no stranger can point them here. Containers reach the host by `.internal`.
SAFE_SUFFIXES = (".localhost", ".internal")


def make_auth(*, api_key: str | None, loopback_only: bool) -> Middleware:
    """The middleware. `loopback_only` says that the server is bound to loopback, where pages must be kept out."""

    @web.middleware
    async def auth(request: web.Request, handler: Handler) -> web.StreamResponse:
        if loopback_only and (why := foreign_page(request.headers.get("Origin"), request.host)):
            return fault_response(request, Fault("forbidden", 403, why, code="forbidden_origin"))
        if api_key is not None and request.path not in OPEN_PATHS and not _has_key(request, api_key):
            return _unauthorized(request)
        return await handler(request)

    return auth


def foreign_page(origin: str | None, host: str) -> str | None:
    """Why a request with these headers may come from a web page that has no business here, or None."""
    if origin is not None and not is_loopback(_hostname(origin)):
        return (
            f"A page of {origin[:128]!r} may not use this API: a node on loopback serves programs of its own machine. "
            "Start the node with an API key and another address to serve pages."
        )
    name = _hostname(f"//{host}")
    if not (_is_address(name) or is_loopback(name) or name.endswith(SAFE_SUFFIXES)):
        return (
            f"Host {host[:128]!r} is not a name of this machine's loopback. Use http://127.0.0.1 or http://localhost."
        )
    return None


def is_loopback(name: str) -> bool:
    """Whether `name` (a host name or an IP address) can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _hostname(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _has_key(request: web.Request, api_key: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    matches = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), api_key.encode())
    return scheme.lower() == "bearer" and matches


def _unauthorized(request: web.Request) -> web.Response:
    given = "Authorization" in request.headers
    message = "Incorrect API key provided." if given else "No API key provided: send 'Authorization: Bearer KEY'."
    headers = {"WWW-Authenticate": "Bearer"}
    return fault_response(request, Fault("unauthorized", 401, message, code="invalid_api_key", headers=headers))
