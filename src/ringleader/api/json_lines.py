"""Answers as lines of JSON, as Ollama's clients read them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from ringleader.api.sse import ClientGone, EventStream
from ringleader.values import Json

FRAMING = "application/x-ndjson"


async def write_lines(request: web.Request, lines: AsyncIterator[Json]) -> web.StreamResponse:
    """All `lines` as they come. A client that leaves ends them; an error before the first is a real HTTP error."""
    first = await anext(lines)
    stream = JsonLines(request, {})
    try:
        await stream.start()
        await stream.send(first)
        async for line in lines:
            await stream.send(line)
        await stream.finish()
    except ClientGone:
        pass  # whoever owns the lines closes them
    return stream.response


class JsonLines(EventStream):
    """One object a line. There is no line without meaning, so silence stays silent; comments have no place."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        super().__init__(request, {"Content-Type": FRAMING, **headers}, done=False)

    async def send(self, event: Json) -> None:
        """One line."""
        await self._write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")

    async def keep_alive(self) -> None:
        """Nothing: clients read each line as an object."""

    async def comment(self, text: str) -> None:
        """Nothing: what an answer's end tells stands in its last line."""
