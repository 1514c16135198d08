"""What Ollama's clients ask about models: `/api/tags`, `ps`, `show`, `pull` and `version`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from aiohttp import web

import ringleader
from ringleader.api.body import read_object
from ringleader.api.contracts import ModelDetails, ModelFacts, ModelLibrary
from ringleader.api.json_lines import FRAMING, write_lines
from ringleader.api.ollama_answer import timestamp
from ringleader.api.ollama_read import model_of
from ringleader.api.ollama_shapes import (
    OllamaErrorBody,
    OllamaTags,
    OllamaVersion,
    PulledBody,
    RunningModels,
    ShownModel,
)
from ringleader.api.ollama_wire import NamedWire, PullWire
from ringleader.api.routes import Route
from ringleader.api.validation import parse
from ringleader.errors import BadRequest
from ringleader.values import Json

# Whose API this is, as of which version: clients compare it before they use something newer.
API_VERSION = "0.13.0"
# Until nobody has used a model for so long nothing is unloaded; a year is what a client can show for "not soon".
KEPT_S = 365 * 86400
HUBS = ("hf.co/", "huggingface.co/")
SUCCESS = {"status": "success"}


class OllamaModels:
    """The handlers. Without a `library` there is only the version."""

    def __init__(self, library: ModelLibrary | None) -> None:
        self._found = library

    @property
    def _library(self) -> ModelLibrary:
        assert self._found is not None, "the routes that need it are not served without"
        return self._found

    def routes(self) -> list[Route]:
        """Where they are served."""
        tag = "ollama"
        version = "Whose API this is, and as of which version."
        routes = [Route("GET", "/api/version", self.version, tag, version, answer=OllamaVersion)]
        if self._found is None:
            return routes
        pull = "Fetch a model into this node's store, and tell how it goes."
        return [
            *routes,
            Route("GET", "/api/tags", self.tags, tag, "All models that a request may name.", answer=OllamaTags),
            Route("GET", "/api/ps", self.ps, tag, "The models that are loaded.", answer=RunningModels),
            Route("POST", "/api/show", self.show, tag, "One model in full.", body=NamedWire, answer=ShownModel),
            Route(
                "POST",
                "/api/pull",
                self.pull,
                tag,
                pull,
                body=PullWire,
                answer=PulledBody,
                event=PulledBody | OllamaErrorBody,
                framing=FRAMING,
            ),
        ]

    async def version(self, request: web.Request) -> web.Response:
        """The API's version, and ours."""
        return web.json_response({"version": API_VERSION, "ringleader": ringleader.__version__})

    async def tags(self, request: web.Request) -> web.Response:
        """All models, the loaded ones first."""
        facts = sorted(await self._library.facts(), key=lambda each: (not each.loaded, each.id))
        return web.json_response({"models": [_listed(each) for each in facts]})

    async def ps(self, request: web.Request) -> web.Response:
        """The loaded models."""
        facts = [each for each in await self._library.facts() if each.loaded]
        return web.json_response({"models": [_running(each) for each in sorted(facts, key=lambda each: each.id)]})

    async def show(self, request: web.Request) -> web.Response:
        """One model."""
        name = _name(parse(NamedWire, await read_object(request)))
        return web.json_response(_shown(await self._library.details(model_of(name))))

    async def pull(self, request: web.Request) -> web.StreamResponse:
        """Fetch a model. Whoever leaves stops it; the next pull goes on."""
        wire = parse(PullWire, await read_object(request))
        async with aclosing(self._progress(reference_of(_name(wire)))) as lines:
            if wire.stream is not False:
                return await write_lines(request, lines)
            async for _ in lines:
                pass
            return web.json_response(SUCCESS)

    async def _progress(self, reference: str) -> AsyncGenerator[Json, None]:
        async with aclosing(self._library.pull(reference)) as steps:
            async for step in steps:
                line: dict[str, Json] = {"status": step.stage}
                if step.total:
                    line |= {"digest": step.stage, "total": step.total, "completed": step.done}
                yield line
        yield SUCCESS


def reference_of(name: str) -> str:
    """A model as our store finds it, from what Ollama's clients call it."""
    name = model_of(name)
    for hub in HUBS:
        if name.startswith(hub):
            return f"hf:{name.removeprefix(hub)}"
    return name


def _name(wire: NamedWire) -> str:
    name = wire.model or wire.name
    if not name:
        raise BadRequest("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    return name


def _details(facts: ModelFacts) -> dict[str, Json]:
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": facts.family,
        "families": [facts.family] if facts.family else [],
        "parameter_size": _human(facts.parameters),
        "quantization_level": facts.weights,
    }


def _listed(facts: ModelFacts) -> dict[str, Json]:
    return {
        "name": facts.id,
        "model": facts.id,
        "modified_at": timestamp(facts.modified),
        "size": facts.size_bytes,
        "digest": facts.digest,
        "details": _details(facts),
    }


def _running(facts: ModelFacts) -> dict[str, Json]:
    listed = _listed(facts)
    del listed["modified_at"]
    more = {"size_vram": facts.size_bytes, "context_length": facts.context_max}
    return {**listed, "expires_at": timestamp(time.time() + KEPT_S), **more}


def _shown(details: ModelDetails) -> dict[str, Json]:
    facts = details.facts
    info: dict[str, Any] = {
        "general.architecture": facts.family,
        "general.parameter_count": facts.parameters,
        f"{facts.family}.block_count": facts.layers,
        f"{facts.family}.context_length": facts.context_max,
        f"{facts.family}.embedding_length": facts.hidden_size,
    }
    return {
        "license": "",
        "modelfile": f"FROM {facts.id}\n",
        "parameters": "",
        "template": details.template,
        "details": _details(facts),
        "model_info": info,
        "capabilities": ["completion", "tools", *(["thinking"] if details.thinks else [])],
        "modified_at": timestamp(facts.modified),
    }


def _human(parameters: int) -> str:
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= size:
            return f"{parameters / size:.1f}{letter}"
    return str(parameters) if parameters else ""
