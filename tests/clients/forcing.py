"""A proxy between an agent and a node that makes a small model call: it forces the first turn, and ends the second.

Agents send no tool_choice of their own, and a model of 135 million parameters calls nothing by itself. The proxy adds
the choice, and narrows the tool's schema to the arguments that the test wants. Everything else goes through untouched.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

DONE = "I have read it."
HOP_BY_HOP = {"host", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "connection"}
UPSTREAM_TIMEOUT = aiohttp.ClientTimeout(total=600)

Json = Any


@dataclass
class Forcing:
    """`tool` is called first, with `arguments`. `turns` are the bodies that were sent on, `results` what tools gave."""

    upstream: str
    tool: str
    arguments: dict[str, Json]
    turns: list[Json] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # what was said instead of an answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send one request on, changed if it is a turn of the agent's loop, and its answer back as it comes."""
        raw = await request.read()
        if request.path.endswith(("/messages", "/responses", "/chat/completions")) and raw:
            body = self._changed(request.path, json.loads(raw))
            self.turns.append(body)
            raw = json.dumps(body).encode()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        async with (
            aiohttp.ClientSession(timeout=UPSTREAM_TIMEOUT) as session,
            session.request(request.method, self.upstream + request.path_qs, headers=headers, data=raw) as answer,
        ):
            self.statuses.append(answer.status)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                if answer.status >= 400:
                    self.refused.append(piece.decode(errors="replace"))
                await response.write(piece)
            await response.write_eof()
            return response

    def _changed(self, path: str, body: Json) -> Json:
        tools = body.get("tools") or []
        wanted = [tool for tool in tools if _name(tool) == self.tool]
        if not wanted:
            return _ended(path, body)  # a title, a summary: not a turn of the loop
        results = _results(body)
        self.results += results[len(self.results) :]
        return _ended(path, body) if results else self._forced(path, body, wanted[0])

    def _forced(self, path: str, body: Json, tool: Json) -> Json:
        holder = tool.get("function", tool)
        key = "input_schema" if "input_schema" in holder else "parameters"
        properties = {name: {"enum": [value]} for name, value in self.arguments.items()}
        holder[key] = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        choice: Json = {"type": "function", "function": {"name": self.tool}}
        if path.endswith("/messages"):
            choice = {"type": "tool", "name": self.tool}
        elif path.endswith("/responses"):
            choice = {"type": "function", "name": self.tool}
        return body | {"tool_choice": choice}


def _ended(path: str, body: Json) -> Json:
    """Text that ends: the small model's own would ramble on to its limit."""
    schema = {"enum": [DONE]}
    if path.endswith("/messages"):
        output = (body.get("output_config") or {}) | {"format": {"type": "json_schema", "schema": schema}}
        return body | {"output_config": output, "tool_choice": {"type": "none"}}
    shape = {"type": "json_schema", "name": "done", "schema": schema, "strict": True}
    if path.endswith("/responses"):
        return body | {"text": (body.get("text") or {}) | {"format": shape}, "tool_choice": "none"}
    wrapped = {"type": "json_schema", "json_schema": {key: shape[key] for key in ("name", "schema", "strict")}}
    return body | {"response_format": wrapped, "tool_choice": "none"}


def _name(tool: Json) -> str:
    return str(tool.get("function", tool).get("name", ""))


def _results(body: Json) -> list[str]:
    """What the agent's tools gave so far, in whichever API's shape."""
    found = []
    for message in body.get("messages") or ():
        if message.get("role") == "tool":
            found.append(json.dumps(message["content"]))
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if block.get("type") == "tool_result":
                found.append(json.dumps(block.get("content")))
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        if str(item.get("type", "")).endswith("_call_output"):
            found.append(json.dumps(item.get("output")))
    return found


@asynccontextmanager
async def forcing(upstream: str, tool: str, arguments: dict[str, Json]) -> AsyncIterator[tuple[str, Forcing]]:
    """The proxy's address and what it saw, for the length of the block."""
    proxy = Forcing(upstream, tool, arguments)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", proxy.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", proxy
    finally:
        await runner.cleanup()
