"""What clients of these APIs may ask for and this server never does: an error that says so, not an unknown URL."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from ringleader.api.fault_table import Fault
from ringleader.api.faults import fault_response
from ringleader.api.routes import Handler, Route

UNSERVED: Mapping[str, str] = {
    "/v1/embeddings": "None of the models here makes embeddings: they continue text. Run an embedding model elsewhere.",
    "/v1/responses/compact": "Conversations are not compacted here: send a shorter input, or truncation 'auto'.",
    "/v1/images/generations": "Only text is made here.",
    "/v1/audio/speech": "Only text is made here.",
    "/v1/audio/transcriptions": "Only text is read here.",
    "/v1/moderations": "There is no moderation here.",
    "/api/embed": "None of the models here makes embeddings. Run an embedding model elsewhere.",
    "/api/embeddings": "None of the models here makes embeddings. Run an embedding model elsewhere.",
    "/api/create": "Models are made elsewhere; fetch one with POST /api/pull.",
    "/api/copy": "Models have one name; give them others with ringleader node --alias.",
    "/api/push": "Models leave this node by no way.",
}


def routes() -> list[Route]:
    """A route for each."""
    return [Route("POST", path, _refusal(why), "not served", why, status=501) for path, why in UNSERVED.items()]


def _refusal(why: str) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return fault_response(request, Fault("unserved", 501, why, code="not_served"))

    return refuse
