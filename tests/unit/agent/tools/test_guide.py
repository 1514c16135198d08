"""The examples of the tools' guide, run as they stand there, print what stands behind them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ringleader.agent.tools.mcp_settings import read_mcp_settings

GUIDE = (Path(__file__).resolve().parents[4] / "docs" / "guides" / "agent-tools.md").read_text(encoding="utf-8")


def test_the_programs_print_what_the_guide_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "guide", "exec"), names)  # one after the other, as they are read
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^print\(.*?\)  # (.*)$", GUIDE, re.MULTILINE)
    assert len(printed) == len(promised) == 5
    for line, promise in zip(printed, promised, strict=True):
        begin, _, end = promise.partition(" ... ")
        assert line.startswith(begin) and line.endswith(end)


def test_the_settings_of_servers_are_read(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```json\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "servers.json"
    path.write_text(json.dumps(json.loads(block)))
    git, search = read_mcp_settings(path, {"SEARCH_KEY": "k"})
    assert git.approval == "once" and search.only == ("find",) and search.headers["Authorization"] == "Bearer k"
