"""A tiny MCP server, run as a process of its own: `python mcp_server.py stdio`, or `http`, which prints its port."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("tiny")


class Sum(BaseModel):
    total: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool()
def greet(name: str) -> str:
    """Greets."""
    return f"hello {name}"


@server.tool(name="odd.name/with spaces")
def odd() -> str:
    """Has a name that no provider takes."""
    return "odd"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("on purpose")


@server.tool()
def picture() -> Image:
    """Draws."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
async def wait(seconds: float) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def die() -> str:
    """Dies in the middle of a call."""
    print("dying now", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def environment(name: str) -> str:
    """Tells a variable of its environment, and its process."""
    return f"{os.environ.get(name, 'unset')} {os.getpid()}"


class Keyed:
    """Refuses requests without the key."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"authorization", b"Bearer k") not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no key"})
            return
        await self._app(scope, receive, send)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(Keyed(server.streamable_http_app()), log_level="error", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
