"""`ringleader status`: the page, and the command against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import Any

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from ringleader.api.app import make_app, serve
from ringleader.cli.status import status
from ringleader.cli.status_page import duration, page, size
from tests.api.scripted import ScriptedNode, served

PICTURE: dict[str, Any] = {
    "name": "home",
    "version": "0.1.0",
    "master": "n1",
    "uptime_s": 187205.4,
    "nodes": [
        {
            "id": "n1",
            "name": "mac-studio",
            "chip": "M3 Ultra",
            "memory_total_bytes": 256 * 2**30,
            "memory_free_bytes": 115 * 2**30,
            "state": "ok",
            "is_master": True,
        },
        {
            "id": "n2",
            "name": "a-machine-with-a-very-long-name.lan",
            "chip": "AMD Ryzen Threadripper PRO 7995WX",
            "memory_total_bytes": 64 * 2**30,
            "memory_free_bytes": 26 * 2**30,
            "state": "ok, left out of every ring because its link would slow all of them down",
            "is_master": False,
        },
        {"id": "n3", "name": "書斎の机の上の古い計算機", "state": "gone"},
    ],
    "rings": [
        {
            "model": "qwen3-235b",
            "plan": "0f" * 16,
            "state": "loading",
            "epoch": 3,
            "why": "mac-mini is gone; layers 75-93 go to macbook " * 3,
            "context_tokens": 8192,
            "stages": [
                {
                    "node": "n1",
                    "name": "mac-studio",
                    "first_layer": 0,
                    "last_layer": 74,
                    "state": "ready",
                    "progress": 1.0,
                    "pid": 7,
                    "memory_bytes": 92_900_000,
                },
                {
                    "node": "n2",
                    "name": "macbook",
                    "first_layer": 75,
                    "last_layer": 93,
                    "state": "loading",
                    "progress": 0.434,
                    "pid": None,
                    "memory_bytes": None,
                },
            ],
            "running": 3,
            "waiting": 1,
            "tokens_per_s": 41.26,
            "passes_per_token": 0.714,
            "served_requests": 12,
            "served_tokens": 3041,
        }
    ],
    "queue": {"waiting": 1, "running": 3, "max": 64},
    "events": [{"at": 1700000000 + index, "text": f"event {index} " + "and more " * 12} for index in range(9)],
}


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    for line in page(PICTURE, columns):
        assert cell_len(line) <= columns, line


def test_the_page_says_who_leads_what_is_where_and_how_fast() -> None:
    text = " ".join(word for line in page(PICTURE, 80) for word in line.split())
    for said in ("home · 3 nodes · master mac-studio", "up 2 d 4 h", "141.0 of 256 GB", "loading 43%", "93 MB"):
        assert said in text
    for said in ("3 running + 1 waiting", "41.3 tok/s", "0.71 passes/token", "served 12 requests, 3041 tokens"):
        assert said in text
    assert "event 8" in text
    assert "event 3" not in text


def test_bars_stand_where_their_layers_are_and_cover_the_model() -> None:
    bars = [line for line in page(PICTURE, 80) if "█" in line]
    first, second = (range(line.index("█"), line.rindex("█") + 1) for line in bars)
    assert len(first) > 2 * len(second)
    assert first.stop in (second.start, second.start + 1)


@pytest.mark.parametrize("picture", [{}, {"nodes": [{}], "rings": [{}, {"stages": [{}]}], "events": [{}], "queue": {}}])
def test_a_picture_with_gaps_is_still_drawn(picture: dict[str, Any]) -> None:
    assert page(picture, 80)


def test_names_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in "\n".join(page({"name": "\x1b[2Jhome", "nodes": [{"name": "a\nb"}]}, 80))


def test_durations_and_sizes_use_the_units_that_count() -> None:
    assert [duration(s) for s in (0, 59.9, 61, 3600, 90061)] == ["0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]
    assert [size(b) for b in (7, 1500, 92_900_000, 5_000_000_000)] == ["7 B", "2 kB", "93 MB", "5.0 GB"]


async def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(status)
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def test_the_command_prints_the_page_for_a_pipe_at_80_columns() -> None:
    node = ScriptedNode()
    node.picture = PICTURE
    async with served(node) as server:
        result = await run("--url", server.url)
    assert result.exit_code == 0
    assert "RING qwen3-235b" in result.stdout
    assert all(cell_len(line) <= 80 for line in result.stdout.splitlines())


async def test_json_is_the_object_that_the_node_gave() -> None:
    node = ScriptedNode()
    node.picture = PICTURE
    async with served(node) as server:
        result = await run("--json", "--url", f"{server.url}/v1/")
    assert json.loads(result.stdout) == PICTURE


async def test_no_node_is_exit_3_and_says_how_to_start_one() -> None:
    async with served(ScriptedNode()) as server:
        url = server.url
    result = await run("--url", url)
    assert result.exit_code == 3
    assert result.stderr == f"error: no node answers at {url}. Start one: ringleader node\n"


async def test_an_address_that_is_none_and_a_server_that_is_no_node_are_told_apart() -> None:
    assert "not an http:// address" in (await run("--url", "ftp://x")).stderr
    async with served(ScriptedNode(), api_key="k") as server:
        result = await run("--url", server.url)
        assert "RINGLEADER_API_KEY" in result.stderr
        assert result.exit_code == 1


async def test_watch_survives_the_node_and_ends_cleanly_on_interrupt() -> None:
    code = "import typer; from ringleader.cli.status import status; typer.run(status)"
    node = ScriptedNode()
    server = await serve(make_app(node, node, node), port=0)
    arguments = ["-c", code, "--watch", "--json", "--url", server.url]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert json.loads(await process.stdout.readline())["name"] == "home"
            await server.close()
            while "error" not in json.loads(await process.stdout.readline()):
                pass
            server = await serve(make_app(node, node, node), port=server.port)
            while "name" not in json.loads(await process.stdout.readline()):
                pass
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    finally:
        await server.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
