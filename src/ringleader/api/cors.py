"""Cross-origin requests: browsers are told yes for the origins that the operator named, and nothing for all others."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ringleader.errors import BadRequest

PREFLIGHT_MAX_AGE_S = 600
HEADERS_SEEN = "x-request-id, retry-after, warning"  # what a page may read besides the body


def make_cors(origins: Collection[str]) -> Middleware:
    """The middleware that answers preflights. It stands before the one that asks for keys: browsers send none with
    them."""

    @web.middleware
    async def cors(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = request.headers.get("Access-Control-Request-Method")
        if request.method != "OPTIONS" or asked is None or request.headers.get("Origin") not in origins:
            return await handler(request)
        headers = {
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
            "Access-Control-Max-Age": str(PREFLIGHT_MAX_AGE_S),
        }
        return web.Response(status=204, headers=headers)

    return cors


def allow(app: web.Application, origins: Collection[str]) -> None:
    """Name the origin in every response that goes to a page of it, streams included."""

    async def name_origin(request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and origin in origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = HEADERS_SEEN
            response.headers["Vary"] = "Origin"

    app.on_response_prepare.append(name_origin)


def check_origin(text: str) -> str:
    """An origin as browsers send it. Raises BadRequest when it is none."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or text != f"{parts.scheme}://{parts.netloc}":
        raise BadRequest(f"--cors {text!r} is no origin, as in https://chat.example.org or http://localhost:3000")
    return text
