"""`GET /health`, `/ready`, `/v1/cluster` and `GET /`: what people and scripts ask a node about itself."""

from __future__ import annotations

from aiohttp import web

import ringleader
from ringleader.api.contracts import ClusterView
from ringleader.api.routes import Route
from ringleader.api.shapes import HealthBody
from ringleader.values import Json

WELCOME = (
    "Ringleader {version}. Point an OpenAI client at {origin}/v1, or one of Anthropic's or Ollama's at {origin} "
    "(any key will do, unless one was made).\n"
)


READY = "ready"


class Cluster:
    """The handlers."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def routes(self) -> list[Route]:
        """Where they are served."""
        return [
            Route("GET", "/v1/cluster", self.cluster, "cluster", "What this node believes of the cluster."),
            Route(
                "GET",
                "/health",
                self.health,
                "cluster",
                "Whether this node can serve.",
                answer=HealthBody,
                fails=(503,),
            ),
            Route("GET", "/ready", self.ready, "cluster", "Whether its models can be asked now.", fails=(503,)),
            Route("GET", "/", self.welcome, "cluster", "One line for people."),
        ]

    async def cluster(self, request: web.Request) -> web.Response:
        """The whole picture; its shape is drawn at `ClusterView.cluster`."""
        return web.json_response(await self._view.cluster())

    async def health(self, request: web.Request) -> web.Response:
        """200 while the node can serve, 503 otherwise, for load balancers and process supervisors."""
        health = self._view.health()
        return web.json_response(health, status=200 if health.get("status") == "ok" else 503)

    async def ready(self, request: web.Request) -> web.Response:
        """200 once the models that this node was started with, and those that are being loaded, can be asked without a
        wait; 503 with how far they are until then."""
        health = self._view.health()
        if health.get("status") != "ok":
            return web.json_response({"status": health.get("status"), "models": {}}, status=503)
        states: dict[str, Json] = dict.fromkeys(health.get("models") or (), "waiting")
        states |= {ring["model"]: _how_far(ring) for ring in (await self._view.cluster()).get("rings") or ()}
        ready = all(state == READY for state in states.values())
        return web.json_response(
            {"status": "ok" if ready else "loading", "models": states}, status=200 if ready else 503
        )

    async def welcome(self, request: web.Request) -> web.Response:
        """One line for whoever opens the address in a browser."""
        return web.Response(text=WELCOME.format(version=ringleader.__version__, origin=request.url.origin()))


def _how_far(ring: Json) -> str:
    """A ring's state for people; of one that loads, how much of it is there."""
    progress = [stage.get("progress") for stage in ring.get("stages") or ()]
    known = [each for each in progress if each is not None]
    if ring.get("state") != "loading" or not known:
        return str(ring.get("state"))
    return f"loading, {sum(known) / len(known):.0%}"
