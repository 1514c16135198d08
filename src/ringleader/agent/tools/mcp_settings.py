"""Reads settings of MCP servers in the JSON that most programs share: {"mcpServers": {"NAME": {"command": ...}}}."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ringleader.agent.contracts import Approval
from ringleader.agent.tools.mcp_servers import CALL_S, McpServer
from ringleader.errors import ContractFault

SETTINGS_BYTES_MAX = 1_000_000
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class _ServerWire(BaseModel):
    """`type`, `transport` and `disabled` are other programs' words; the address says the first two by itself."""

    model_config = ConfigDict(extra="forbid")

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    type: str = ""
    transport: str = ""
    disabled: bool = False
    tools: list[str] | None = None
    tier: Annotated[int, Field(ge=0)] = 1
    approval: Approval = "always"
    timeout_s: Annotated[float, Field(gt=0)] = CALL_S


class _SettingsWire(BaseModel):
    mcpServers: dict[str, _ServerWire]  # the wire's name


def read_mcp_settings(path: Path, environment: Mapping[str, str] = os.environ) -> list[McpServer]:
    """The servers of a file. `${NAME}` in env, headers and args is taken from `environment`, so that no key need stand
    in the file.

    Raises:
        ContractFault: the file cannot be read, is not of the form, or names a variable that is not set.
    """
    try:
        with path.open("rb") as file:
            text = file.read(SETTINGS_BYTES_MAX)
        wire = _SettingsWire.model_validate(json.loads(text))
    except OSError as unread:
        raise ContractFault(f"the MCP settings {path} cannot be read: {unread.strerror}") from unread
    except ValidationError as wrong:
        fault = wrong.errors(include_url=False)[0]
        place = ".".join(str(step) for step in fault["loc"])
        raise ContractFault(f"the MCP settings {path} are wrong at {place}: {fault['msg']}") from wrong
    except ValueError as wrong:
        raise ContractFault(f"the MCP settings {path} are not JSON: {wrong}") from wrong
    return [_server(name, each, environment) for name, each in wire.mcpServers.items() if not each.disabled]


def _server(name: str, wire: _ServerWire, environment: Mapping[str, str]) -> McpServer:
    def filled(text: str) -> str:
        return _VARIABLE.sub(lambda found: _variable(found[1], name, environment), text)

    return McpServer(
        name=name,
        command=(wire.command, *(filled(argument) for argument in wire.args)) if wire.command else (),
        url=wire.url,
        environment={key: filled(value) for key, value in wire.env.items()},
        headers={key: filled(value) for key, value in wire.headers.items()},
        only=None if wire.tools is None else tuple(wire.tools),
        tier=wire.tier,
        approval=wire.approval,
        timeout_s=wire.timeout_s,
    )


def _variable(variable: str, server: str, environment: Mapping[str, str]) -> str:
    if variable not in environment:
        raise ContractFault(f"the MCP server {server} needs the environment variable {variable}, which is not set")
    return environment[variable]
