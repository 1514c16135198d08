"""`GET /openapi.json`: the routes and the models at their doors as one OpenAPI 3.1 document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

import ringleader
from ringleader.api.anthropic_shapes import AnthropicErrorBody
from ringleader.api.ollama_shapes import OllamaErrorBody
from ringleader.api.routes import Route
from ringleader.api.shapes import OpenAIErrorBody
from ringleader.values import Json

PATH = "/openapi.json"
TEMPLATE = "#/components/schemas/{model}"
_ERRORS: Mapping[str, Any] = {"": OpenAIErrorBody, "anthropic": AnthropicErrorBody, "ollama": OllamaErrorBody}
_PARAMETER = re.compile(r"\{(\w+)(?::[^}]*)?\}")


class OpenApi:
    """The handler. The document is made once, when it is first asked for."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [*routes, *self.routes()]
        self._document: dict[str, Json] | None = None

    def routes(self) -> list[Route]:
        """Where it is served."""
        return [Route("GET", PATH, self.handle, "cluster", "This API as an OpenAPI document.")]

    async def handle(self, request: web.Request) -> web.Response:
        """The document."""
        if self._document is None:
            self._document = document(self._routes)
        return web.json_response(self._document)


def document(routes: Iterable[Route]) -> dict[str, Json]:
    """The OpenAPI document of `routes`."""
    listed = list(routes)
    schemas, components = _schemas(listed)
    paths: dict[str, Json] = {}
    for number, route in enumerate(listed):
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, number, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ringleader", "version": ringleader.__version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[Any, Json], dict[str, Json]]:
    """The schema of each body, answer and event by its route's place, of errors by tag; and what they refer to."""
    inputs: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        (("error", tag), "validation", TypeAdapter(kind)) for tag, kind in _ERRORS.items()
    ]
    for number, route in enumerate(routes):
        kinds = (("body", route.body), ("answer", route.answer), ("event", route.event))
        inputs += [((number, kind), "validation", TypeAdapter(type_)) for kind, type_ in kinds if type_ is not None]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=TEMPLATE)
    return {key: schema for (key, _), schema in found.items()}, definitions.get("$defs", {})


def _operation(route: Route, number: int, path: str, schemas: dict[Any, Json]) -> dict[str, Json]:
    operation: dict[str, Json] = {
        "operationId": _name(route.method, path),
        "tags": [route.tag],
        "summary": route.summary,
        "responses": _responses(route, number, schemas),
    }
    parameters = [_in_path(name) for name in _PARAMETER.findall(route.path)]
    parameters += [
        {"name": each.name, "in": "query", "required": False, "description": each.about, "schema": {"type": each.type}}
        for each in route.query
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": schemas[number, "body"]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(route: Route, number: int, schemas: dict[Any, Json]) -> dict[str, Json]:
    content: dict[str, Json] = {}
    if route.answer is not None:
        content["application/json"] = {"schema": schemas[number, "answer"]}
    if route.event is not None:
        content[route.framing] = {"schema": schemas[number, "event"]}
    good: dict[str, Json] = {"description": "The answer."} if route.status < 400 else {"description": "Never served."}
    if content:
        good["content"] = content
    failed: dict[str, Json] = {"description": "An error, which names the field that is wrong."}
    tag = route.tag if route.tag in _ERRORS else ""
    failed["content"] = {"application/json": {"schema": schemas["error", tag]}}
    return {str(route.status): good, **{str(status): failed for status in route.fails}, "default": failed}


def _in_path(name: str) -> dict[str, Json]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _name(method: str, path: str) -> str:
    return "_".join([method.lower(), *re.findall(r"\w+", path)])
