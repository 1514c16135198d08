"""Tools of other programs, by the Model Context Protocol: a program of this machine (stdio) or an address (HTTP).

What a server says of its tools is a stranger's word: schemas go to the model and are checked without running their
patterns, hints like "read only" are not believed, and a person is asked before each call unless the settings say no.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ringleader.agent.contracts import Approval, Effect, Registry, ToolContract, ToolFault, ToolResult
from ringleader.agent.extra import extra
from ringleader.agent.tools.error_tail import ErrorTail
from ringleader.errors import ContractFault, PeerFault

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client
    from mcp.types import CallToolResult, Tool

log = logging.getLogger(__name__)

CONNECT_S = 30.0  # programs that are fetched at their first start take some of it
CLOSE_S = 10.0  # the protocol's own steps to end a program take six at most
CALL_S = 60.0
TOOLS_MAX = 128  # of one server: more would fill the context of any model
PAGES_MAX = 32
DESCRIPTION_CHARS_MAX = 2_000
NAME_CHARS_MAX = 64
_SERVER_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
_EVERYTHING: frozenset[Effect] = frozenset({"read", "write", "network"})


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: `command` with its arguments, or the `url` of its endpoint. Its tools are called NAME__TOOL.

    A program gets `environment` and few variables more, so that keys of the agent do not reach it. `only` are the
    server's own names of the tools to take, None for all.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # keys may stand in these
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    only: tuple[str, ...] | None = None
    tier: int = 1
    approval: Approval = "always"
    effects: frozenset[Effect] = _EVERYTHING
    timeout_s: float = CALL_S

    def __post_init__(self) -> None:
        if not _SERVER_NAME.fullmatch(self.name):
            raise ContractFault(f"an MCP server cannot be called {self.name!r}: use 1 to 32 letters, digits and -")
        if bool(self.command) == bool(self.url):
            raise ContractFault(f"the MCP server {self.name} needs a command or a url, and not both")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ContractFault(f"the url of the MCP server {self.name} must begin with http:// or https://")


@asynccontextmanager
async def mcp_tools(server: McpServer) -> AsyncIterator[list[ToolContract]]:
    """The server's tools, for as long as the block lasts; its program ends with it.

    Raises:
        ExtraMissing: the package mcp is not installed.
        PeerFault: the server cannot be started or reached, or does not speak the protocol; says what it said last.
        ContractFault: `only` names a tool that the server does not have.
    """
    with extra("mcp"):
        import mcp  # noqa: F401 - here, so that what lacks is told before anything is started
    connection = _Connection(server)
    try:
        yield await connection.open()
    finally:
        await connection.close()


@asynccontextmanager
async def with_servers(registry: Registry, servers: Iterable[McpServer]) -> AsyncIterator[Registry]:
    """A registry of the given tools and those of all servers, for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        found = Registry(registry)
        for server in servers:
            for tool in await stack.enter_async_context(mcp_tools(server)):
                found.add(tool)
        yield found


class _Connection:
    """A session in a task of its own: what breaks in it breaks no caller, and it ends in the task that began it."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._errors = ErrorTail(server.name)
        self._stop = asyncio.Event()
        self._tools: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._client: Client | None = None
        self._scope: CancelScope | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> list[ToolContract]:
        self._task = asyncio.create_task(self._serve(), name=f"mcp {self._server.name}")
        either: list[asyncio.Future[Any]] = [self._task, self._tools]
        await asyncio.wait(either, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._tools.done():
            raise await self._not_opened()
        return self._contracts(self._tools.result())

    async def close(self) -> None:
        self._stop.set()
        if self._task is not None:
            if not self._tools.done() and self._scope is not None:
                # Not by the task's own cancel: that would also end the protocol's shielded steps to end a program.
                self._scope.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_S)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_S)
            if self._task.done() and not self._task.cancelled() and self._task.exception() is not None:
                log.debug("MCP server %s ended with %r", self._server.name, self._task.exception())
        self._errors.release()

    async def _serve(self) -> None:
        import anyio

        with anyio.CancelScope() as self._scope:
            async with AsyncExitStack() as stack:
                try:
                    self._client = await self._entered(stack)
                finally:
                    self._errors.release()
                self._tools.set_result(await _listed(self._client))
                await self._stop.wait()

    async def _entered(self, stack: AsyncExitStack) -> Client:
        import httpx2
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        server = self._server
        if server.command:
            program, *arguments = server.command
            settings = StdioServerParameters(command=program, args=arguments, env=dict(server.environment))
            return await stack.enter_async_context(Client(stdio_client(settings, errlog=self._errors.file)))
        timeout = httpx2.Timeout(CONNECT_S, read=server.timeout_s)
        web = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout))
        return await stack.enter_async_context(Client(streamable_http_client(server.url, http_client=web)))

    async def _not_opened(self) -> PeerFault:
        assert self._task is not None
        name = self._server.name
        if not self._task.done():
            return PeerFault(f"the MCP server {name} did not answer within {CONNECT_S:g} s{await self._errors.told()}")
        cause = _innermost(self._task.exception())
        fault = PeerFault(f"the MCP server {name} could not be used: {cause}{await self._errors.told()}")
        fault.__cause__ = self._task.exception()
        return fault

    def _contracts(self, tools: list[Tool]) -> list[ToolContract]:
        only = self._server.only
        lacking = set(only or ()) - {tool.name for tool in tools}
        if lacking:
            have = ", ".join(tool.name for tool in tools)
            wanted = ", ".join(sorted(lacking))
            raise ContractFault(f"the MCP server {self._server.name} has no tool {wanted}; it has: {have or 'none'}")
        found: dict[str, ToolContract] = {}
        for tool in tools:
            if only is not None and tool.name not in only:
                continue
            try:
                contract = self._contract(tool, found)
            except ContractFault as fault:  # one broken tool costs the others nothing
                log.warning("a tool of the MCP server %s is left out: %s", self._server.name, fault)
                continue
            found[contract.name] = contract
        return list(found.values())

    def _contract(self, tool: Tool, taken: Mapping[str, ToolContract]) -> ToolContract:
        async def run(**arguments: Any) -> ToolResult:
            return await self._call(tool.name, arguments)

        return ToolContract(
            name=_contract_name(self._server.name, tool.name, taken),
            description=(tool.description or f"{tool.name} of {self._server.name}")[:DESCRIPTION_CHARS_MAX],
            run=run,
            tier=self._server.tier,
            parameters=tool.input_schema,
            timeout_s=self._server.timeout_s,
            effects=self._server.effects,
            approval=self._server.approval,
        )

    async def _call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if self._task is None or self._task.done() or self._client is None:
            raise await self._gone()
        calling = asyncio.create_task(self._client.call_tool(name, arguments))
        try:
            await asyncio.wait([calling, self._task], return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise await self._gone()
            return _read(calling.result())
        except MCPError as refused:
            if refused.code == CONNECTION_CLOSED:
                raise await self._gone() from refused
            raise ToolFault(f"the MCP server {self._server.name} refused: {refused}") from refused
        finally:
            calling.cancel()  # when it is not done: the server is told
            with suppress(asyncio.CancelledError):
                await asyncio.wait([calling], timeout=CLOSE_S)
            if calling.done() and not calling.cancelled():
                calling.exception()  # seen above, or of no use any more

    async def _gone(self) -> ToolFault:
        return ToolFault(f"the MCP server {self._server.name} is gone{await self._errors.told()}")


async def _listed(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) > TOOLS_MAX:
            break
    if len(tools) > TOOLS_MAX:
        log.warning("an MCP server has more than %d tools; the first are used (name those to take)", TOOLS_MAX)
    return tools[:TOOLS_MAX]


def _contract_name(server: str, tool: str, taken: Mapping[str, ToolContract]) -> str:
    """NAME__TOOL in the letters that providers take; a hash keeps apart what would be the same."""
    name = f"{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= NAME_CHARS_MAX and name not in taken:
        return name
    return f"{name[: NAME_CHARS_MAX - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


def _read(result: CallToolResult) -> ToolResult:
    """Text as it is, anything else by a note; what is structured goes to code as it came."""
    pieces: list[str] = []
    for block in result.content:
        if block.type == "text":
            pieces.append(block.text)
        elif block.type == "resource_link":
            pieces.append(f"[{block.name}: {block.uri}]")
        elif block.type == "resource":
            pieces.append(getattr(block.resource, "text", f"[{block.resource.uri}: not text]"))
        else:
            pieces.append(f"[{block.type} {block.mime_type}: not shown]")
    text = "\n".join(pieces)
    if result.is_error:
        raise ToolFault(text or "the tool failed and does not say why")
    if result.structured_content is None:
        return ToolResult(text or "done", text)
    return ToolResult(text or str(result.structured_content), result.structured_content)


def _innermost(error: BaseException | None) -> str:
    """What went wrong, out of the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if error is not None else "it ended"
