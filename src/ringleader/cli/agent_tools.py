"""The tools of `ringleader agent`: those that need no settings, and those that its options hand something to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ringleader.agent.contracts import Registry
from ringleader.agent.tools import builtin_tools
from ringleader.agent.tools.fetch import fetch_tool
from ringleader.agent.tools.files import read_file_tool
from ringleader.agent.tools.mcp_servers import with_servers
from ringleader.agent.tools.mcp_settings import read_mcp_settings
from ringleader.agent.tools.shell import shell_tool
from ringleader.errors import BadRequest

RootOption = Annotated[Path | None, typer.Option("--root", help="Adds read_file: files below this directory.")]
HostsOption = Annotated[
    list[str] | None, typer.Option("--allow-host", help="Adds fetch: pages of this host; repeat it.")
]
PrivateOption = Annotated[bool, typer.Option("--allow-private", help="fetch may go to addresses of this network, too.")]
ShellOption = Annotated[Path | None, typer.Option("--shell", help="Adds shell: commands that begin in this directory.")]
McpOption = Annotated[
    Path | None, typer.Option("--mcp", help="Adds the tools of MCP servers: a file of their settings.")
]

TIERS = {
    0: "tools that touch nothing",
    1: "also those that read files and pages, and those of MCP servers",
    2: "also the shell",
}


OPTIONS = {"read_file": "--root DIR", "fetch": "--allow-host HOST", "shell": "--shell DIR"}  # that add these tools


@dataclass(frozen=True, slots=True)
class ToolSources:
    """What the options name. Nothing is added that was not named."""

    root: Path | None = None
    hosts: Sequence[str] = ()
    private: bool = False
    shell: Path | None = None
    mcp: Path | None = None

    @property
    def words(self) -> list[str]:
        """The options as they are written on a command line."""
        named = {"--root": self.root, "--shell": self.shell, "--mcp": self.mcp}
        given = [word for option, value in named.items() if value is not None for word in (option, str(value))]
        hosts = [word for host in self.hosts for word in ("--allow-host", host)]
        return given + hosts + (["--allow-private"] if self.private else [])

    async def opened(self, stack: AsyncExitStack) -> Registry:
        """All tools of a run; servers are started, and end with the stack.

        Raises:
            BadRequest: an option or the servers' settings are wrong.
            PeerFault: a server cannot be used.
        """
        found = self.registry()
        if self.mcp is None:
            return found
        return await stack.enter_async_context(with_servers(found, read_mcp_settings(self.mcp)))

    def registry(self) -> Registry:
        """Those that need no server.

        Raises:
            BadRequest: an option names no directory or no host.
        """
        found = builtin_tools()
        if self.root is not None:
            if not self.root.is_dir():
                raise BadRequest(f"--root {self.root} is no directory", param="--root")
            found.add(read_file_tool(self.root))
        if self.hosts:
            found.add(fetch_tool(self.hosts, private=self.private))
        elif self.private:
            raise BadRequest(
                "--allow-private needs --allow-host: fetch goes to named hosts only", param="--allow-private"
            )
        if self.shell is not None:
            found.add(shell_tool(self.shell))
        return found


def check_added(names: Sequence[str], registry: Registry, source: str) -> None:
    """Refuses a tool that only an option adds, where it was not given.

    Raises:
        BadRequest: names `source`, the tool and its option.
    """
    for name, option in OPTIONS.items():
        if name in names and name not in registry:
            raise BadRequest(f"{source} asks for {name}, which is there only with {option}", param="--tools")


def check_tier(tier: int, registry: Registry, source: str) -> None:
    """Refuses a tier above all that there are: it would be taken for the highest, and is a slip.

    Raises:
        BadRequest: names `source`, and the tiers with what each adds.
    """
    highest = max([*TIERS, *(tool.tier for tool in registry)])
    if tier > highest:
        meanings = "; ".join(f"{known}: {adds}" for known, adds in TIERS.items())
        raise BadRequest(f"{source}: tiers go from 0 to {highest}, and {tier} is none ({meanings})", param="--tier")
