"""Settings of MCP servers are read from the JSON that most programs share; keys come from the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent.tools.mcp_settings import read_mcp_settings
from ringleader.errors import ContractFault


def written(tmp_path: Path, servers: Any) -> Path:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_programs_and_addresses_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {
            "git": {"command": "uvx", "args": ["mcp-git", "--repo", "${REPO}"], "env": {"TOKEN": "${KEY}"}, "tier": 2},
            "web": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
            "off": {"command": "x", "disabled": True},
        },
    )
    git, web = read_mcp_settings(path, {"KEY": "k", "REPO": "/r"})
    assert git.command == ("uvx", "mcp-git", "--repo", "/r") and git.environment == {"TOKEN": "k"} and git.tier == 2
    assert web.url == "https://x.test/mcp" and web.headers == {"Authorization": "Bearer k"} and web.approval == "always"


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ({"a": {"command": "x", "env": {"K": "${GONE}"}}}, "needs the environment variable GONE"),
        ({"a": {"comand": "x"}}, "wrong at mcpServers.a.comand"),
        ({"a": {"command": "x", "approval": "maybe"}}, "wrong at mcpServers.a.approval"),
        ({"a": {}}, "needs a command or a url"),
        ([], "wrong at mcpServers"),
    ],
)
def test_wrong_settings_name_their_place(tmp_path: Path, servers: Any, why: str) -> None:
    with pytest.raises(ContractFault, match=why):
        read_mcp_settings(written(tmp_path, servers), {})


def test_files_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(ContractFault, match="cannot be read: No such file"):
        read_mcp_settings(tmp_path / "gone")
    (tmp_path / "odd").write_text("{")
    with pytest.raises(ContractFault, match="not JSON"):
        read_mcp_settings(tmp_path / "odd")
