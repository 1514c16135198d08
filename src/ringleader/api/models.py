"""`GET /v1/models` and `GET /v1/models/{id}`, in the shape of whose client asks; ids may hold slashes."""

from __future__ import annotations

import builtins

from aiohttp import web

from ringleader.api import anthropic_models
from ringleader.api.anthropic_shapes import AnthropicModelBody, AnthropicModelPage
from ringleader.api.contracts import ModelCard, ModelShelf
from ringleader.api.error_forms import ANTHROPIC_HEADER
from ringleader.api.routes import Route
from ringleader.api.shapes import ModelBody, ModelList
from ringleader.errors import UnknownModel
from ringleader.values import Json


class Models:
    """The two handlers."""

    def __init__(self, shelf: ModelShelf) -> None:
        self._shelf = shelf

    def routes(self) -> builtins.list[Route]:
        """Where they are served."""
        listed, one = ModelList | AnthropicModelPage, ModelBody | AnthropicModelBody
        return [
            Route("GET", "/v1/models", self.list, "models", "All models that a request may name.", answer=listed),
            Route("GET", "/v1/models/{id:.+}", self.one, "models", "One model by its id.", answer=one, fails=(404,)),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """All models, the loaded ones first: clients that pick one take the first."""
        cards = sorted(await self._shelf.cards(), key=lambda card: (not card.loaded, card.id))
        if ANTHROPIC_HEADER in request.headers:
            return web.json_response(anthropic_models.page(cards, request.query))
        return web.json_response({"object": "list", "data": [model_body(card) for card in cards]})

    async def one(self, request: web.Request) -> web.Response:
        """One model by its id."""
        asked = request.match_info["id"]
        for card in await self._shelf.cards():
            if card.id == asked:
                told = anthropic_models.model_body if ANTHROPIC_HEADER in request.headers else model_body
                return web.json_response(told(card))
        raise UnknownModel(f"The model {asked!r} does not exist here. GET /v1/models lists those that do.")


def model_body(card: ModelCard) -> dict[str, Json]:
    """OpenAI's model object, and what we know beyond it."""
    return {
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "ringleader",
        "loaded": card.loaded,
        "context_max": card.context_max,
    }
