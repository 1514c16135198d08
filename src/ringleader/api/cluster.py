"""`GET /health`, `GET /v1/cluster` and `GET /`: what people and scripts ask a node about itself."""

from __future__ import annotations

from aiohttp import web

import ringleader
from ringleader.api.contracts import ClusterView
from ringleader.api.routes import Route

WELCOME = "Ringleader {version}. Point an OpenAI client at {origin}/v1 (any key will do, unless one was set).\n"


class Cluster:
    """The three handlers."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def routes(self) -> list[Route]:
        """Where they are served."""
        return [
            Route("GET", "/v1/cluster", self.cluster, "cluster", "What this node believes of the cluster."),
            Route("GET", "/health", self.health, "cluster", "Whether this node can serve.", fails=(503,)),
            Route("GET", "/", self.welcome, "cluster", "One line for people."),
        ]

    async def cluster(self, request: web.Request) -> web.Response:
        """The whole picture; its shape is drawn at `ClusterView.cluster`."""
        return web.json_response(await self._view.cluster())

    async def health(self, request: web.Request) -> web.Response:
        """200 while the node can serve, 503 otherwise, for load balancers and process supervisors."""
        health = self._view.health()
        return web.json_response(health, status=200 if health.get("status") == "ok" else 503)

    async def welcome(self, request: web.Request) -> web.Response:
        """One line for whoever opens the address in a browser."""
        return web.Response(text=WELCOME.format(version=ringleader.__version__, origin=request.url.origin()))
