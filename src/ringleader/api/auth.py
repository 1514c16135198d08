"""Who may speak to the API: who has a key where one is asked for, and no web page of a stranger.

A browser on this machine reaches loopback too. A page that does so shows itself by its Origin header, or, when its own
name was re-pointed at 127.0.0.1 (DNS rebinding), by a Host that is a foreign name.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections import Counter
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ringleader.api.contracts import Caller, Keys
from ringleader.errors import Busy, Forbidden, NoKey

OPEN_PATHS = {"/", "/health", "/ready"}
# Names that no public DNS answers for, so no stranger can point them here. Containers reach the host by `.internal`.
SAFE_SUFFIXES = (".localhost", ".internal")
CALLER = web.RequestKey("caller", Caller)


class FixedKeys:
    """One key, or none, for as long as the process lives."""

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    @property
    def asks(self) -> bool:
        return self._key is not None

    def caller(self, key: str) -> Caller | None:
        """Whose key this is: there is one caller."""
        same = self._key is not None and hmac.compare_digest(
            key.encode("utf-8", "surrogateescape"), self._key.encode("utf-8", "surrogateescape")
        )
        return Caller("the only key") if same else None


NO_KEYS = FixedKeys()


def make_auth(keys: Keys, *, loopback_only: bool, origins: Collection[str] = ()) -> Middleware:
    """The middleware. `loopback_only` says that the server is bound to loopback, where pages must be kept out (but not
    those of `origins`); elsewhere a key is needed even when there is none."""
    running: Counter[str] = Counter()  # answers of each caller that are not over

    @web.middleware
    async def auth(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if loopback_only and origin not in origins and (why := foreign_page(origin, request.host)):
            raise Forbidden(why)
        if request.path in OPEN_PATHS or not (keys.asks or not loopback_only):
            return await handler(request)
        request[CALLER] = caller = _caller(request, keys)
        if caller.concurrent is None or request.method != "POST":
            return await handler(request)
        if running[caller.name] >= caller.concurrent:
            raise Busy(
                f"The key {caller.name!r} has {running[caller.name]} answers running, as many as it may: wait for one."
            )
        running[caller.name] += 1
        try:
            return await handler(request)
        finally:
            running[caller.name] -= 1

    return auth


def foreign_page(origin: str | None, host: str) -> str | None:
    """Why a request with these headers may come from a web page that has no business here, or None."""
    if origin is not None and not is_loopback(_hostname(origin)):
        return (
            f"A page of {origin[:128]!r} may not use this API: a node on loopback serves programs of its own machine. "
            "To let the page in, start the node with --cors and the page's origin."
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


def _caller(request: web.Request, keys: Keys) -> Caller:
    """Whose key came: as a bearer token, or in the header that Anthropic's and Azure's clients use."""
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    given = [bearer.strip()] if scheme.lower() == "bearer" else []
    given += [request.headers[name].strip() for name in ("x-api-key", "api-key") if name in request.headers]
    for key in given:
        if key and (caller := keys.caller(key)) is not None:
            return caller
    if given or "Authorization" in request.headers:
        raise NoKey("Incorrect API key provided. The keys of this node: ringleader keys list")
    raise NoKey(
        "No API key provided: send 'Authorization: Bearer KEY' (or x-api-key). Make one: ringleader keys create"
    )
