"""What is served where, as one list: the router and /openapi.json are both made of it, so neither can differ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter after the question mark."""

    name: str
    about: str
    type: str = "string"


@dataclass(frozen=True, slots=True)
class Route:
    """One door. `path` is aiohttp's; `body`, `answer` and `event` are types that pydantic can draw a schema of.

    `answer` None means that the answer has no JSON of a fixed shape; `event` is one piece of a streamed answer, in
    `framing`. `fails` are the statuses, beside those of every route, that it answers with.
    """

    method: str
    path: str
    handler: Handler
    tag: str
    summary: str
    body: Any = None
    answer: Any = None
    event: Any = None
    framing: str = "text/event-stream"
    query: tuple[Query, ...] = ()
    status: int = 200
    fails: tuple[int, ...] = ()


def add_routes(app: web.Application, routes: Iterable[Route]) -> None:
    """Serve `routes`."""
    for route in routes:
        app.router.add_route(route.method, route.path, route.handler, expect_handler=go_on)
        if route.method == "GET":  # clients ask so whether somebody is there
            app.router.add_route("HEAD", route.path, route.handler, expect_handler=go_on)


async def go_on(request: web.Request) -> None:
    """Say so to a client that waits for it before it sends its body. Any other expectation is ignored, as RFC 9110
    (10.1.1) allows: aiohttp's own refusal would come before the middlewares, in no API's shape."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # aiohttp counts it as the answer's begin otherwise
