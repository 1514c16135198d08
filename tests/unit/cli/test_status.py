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
from ringleader.api.auth import FixedKeys
from ringleader.cli.status import status
from ringleader.cli.status_page import page
from ringleader.cli.status_text import clipped, duration, size
from tests.api.scripted import ScriptedNode, served

PICTURE: dict[str, Any] = {
    "name": "mac-studio",
    "version": "0.1.0",
    "cluster": {"id": "c0ffee", "name": "home"},
    "secure": True,
    "master": "n1",
    "term": 4,
    "uptime_s": 187205.4,
    "nodes": [
        {
            "id": "n1",
            "name": "mac-studio",
            "chip": "M3 Ultra",
            "memory_total_bytes": 256 * 2**30,
            "memory_free_bytes": 115 * 2**30,
            "temperature_c": 61.4,
            "bytes_per_s": 696e9,
            "links": [{"to": "n2", "latency_s": 0.00021, "bytes_per_s": 4.7e9}],
            "state": "ok",
            "is_master": True,
        },
        {
            "id": "n2",
            "name": "a-machine-with-a-very-long-name.lan",
            "chip": "AMD Ryzen Threadripper PRO 7995WX",
            "memory_total_bytes": 64 * 2**30,
            "memory_free_bytes": 26 * 2**30,
            "temperature_c": None,
            "links": [{"to": "n1", "latency_s": 0.00024, "bytes_per_s": 5e9}],
            "state": "ok, left out of every ring because its link would slow all of them down",
            "is_master": False,
        },
        {"id": "n3", "name": "書斎の机の上の古い計算機", "state": "gone", "detail": "it is not heard any more"},
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
            "plan_why": "220 GB with 8192 tokens of context need 2 nodes",
            "predicted": {"tokens_per_s": 38.04, "aggregate_tokens_per_s": 71.9, "in_flight": 2},
            "tokens_per_s": 41.26,
            "passes_per_token": 0.714,
            "cache": {"kept_tokens": 2016, "prompt_tokens": 4000, "cached_tokens": 2440},
            "served_requests": 12,
            "served_tokens": 3041,
        }
    ],
    "queue": {"waiting": 1, "running": 3, "max": 64},
    "events": [{"at": 1700000000 + index, "text": f"event {index} " + "and more " * 12} for index in range(9)],
}


NOW = 1700000100.0


def drawn(picture: dict[str, Any], columns: int = 80, rows: int | None = None) -> list[str]:
    return page(picture, columns, now=NOW, rows=rows)


def words(picture: dict[str, Any], columns: int = 80) -> str:
    return " ".join(word for line in drawn(picture, columns) for word in line.split())


@pytest.mark.parametrize("columns", [1, 10, 39, 40, 60, 80, 132])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    for line in drawn(PICTURE, columns):
        assert cell_len(line) <= columns, line


def test_the_page_says_who_leads_what_is_where_and_how_fast() -> None:
    text = words(PICTURE)
    for said in ("home · 2 nodes · master mac-studio · term 4 · secure", "up 2 d 4 h", "141.0 of 256 GB", "93 MB"):
        assert said in text
    for said in ("61 °C", "696 GB/s", "loading 43%", "gone: it is not heard any more"):
        assert said in text
    for said in ("3 running + 1 waiting", "41.3 tok/s", "0.71 passes/token", "served 12 requests, 3041 tokens"):
        assert said in text
    assert "cache 2016 tokens kept · 61% of all prompt tokens came from it" in text
    assert "predicted 38.0 tok/s for one stream, 71.9 for 2 together" in text
    assert "why so: 220 GB with 8192 tokens of context need 2 nodes" in text


def test_links_show_the_worse_of_what_both_ends_measured() -> None:
    (line,) = [line for line in drawn(PICTURE) if "Gb/s" in line]
    assert line.split() == ["mac-studio", "-", "a-machine-wit…", "0.24", "ms", "37.6", "Gb/s"]


def test_of_many_links_those_that_rings_use_are_shown_and_the_slowest_and_the_others_counted() -> None:
    names = [f"n{number}" for number in range(8)]
    links = {a: [{"to": b, "latency_s": int(b[1]) / 1e3, "bytes_per_s": 1e8} for b in names if b > a] for a in names}
    nodes = [{"id": name, "name": name, "state": "ok", "links": links[name]} for name in names]
    ring = {"model": "m", "stages": [{"node": "n0"}, {"node": "n1"}]}
    lines = drawn({"nodes": nodes, "rings": [ring]})
    shown = [line for line in lines if "Mb/s" in line]
    assert shown[0].startswith("n0 - n1")
    assert "7.00 ms" in shown[1]
    assert len(shown) == 6
    assert "and 22 faster ones (--json has all)" in lines


def test_links_that_were_not_measured_yet_are_said_to_be() -> None:
    nodes = [{"id": "a", "name": "a", "state": "ok"}, {"id": "b", "name": "b", "state": "ok", "links": []}]
    assert "links: not measured yet" in drawn({"nodes": nodes})
    assert "links: not measured yet" not in drawn({"nodes": nodes[:1]})


def test_a_node_without_a_master_says_so() -> None:
    text = words({"name": "b", "master": None, "term": None, "secure": False, "nodes": [{"id": "b", "name": "b"}]})
    assert "b · 1 node · no master · not secure (--insecure)" in text
    assert "b follows no master at this moment and looks for one" in text


def test_lost_nodes_do_not_pile_up_and_one_that_came_back_is_not_shown_twice() -> None:
    lost = [{"id": f"x{n}", "name": f"lost-{n}", "state": "lost", "detail": "it was stopped"} for n in range(9)]
    back = {"id": "old", "name": "a", "state": "lost", "detail": "it started anew"}
    lines = drawn({"nodes": [{"id": "a", "name": "a", "state": "ok"}, *lost, back]})
    assert sum("lost: it was stopped" in line for line in lines) == 3
    assert "and 6 more that were lost" in lines
    assert not [line for line in lines if "it started anew" in line]
    assert "1 node ·" in lines[0]


def test_a_narrow_terminal_keeps_names_and_states() -> None:
    text = "\n".join(drawn(PICTURE, 40))
    assert "mac-studio" in text
    assert "NODE" in text
    assert "STATE" in text
    assert "master" in text.split("STATE")[1]
    assert "CHIP" not in text


def test_events_have_ages_and_the_newest_are_shown_as_far_as_there_is_room() -> None:
    lines = drawn(PICTURE)
    assert any(line.startswith(" 1 min ago  event 8") for line in lines)
    assert not [line for line in lines if "event 3" in line]
    assert [line for line in drawn(PICTURE, rows=60) if "event 0" in line]


def test_who_tells_is_named_where_several_do() -> None:
    one = {"at": NOW - 3, "text": "x", "node": "a"}
    assert "   3 s ago  x" in drawn({"events": [one, one]})
    assert "   3 s ago  a: x" in drawn({"events": [one, {**one, "node": "b"}]})


def test_an_idle_ring_shows_how_fast_it_was_when_last_busy() -> None:
    ring = {"model": "m", "tokens_per_s": 0.0, "last_tokens_per_s": 33.3}
    assert "0.0 tok/s (when last busy 33.3)" in words({"rings": [ring]})


def test_an_epoch_is_shown_as_its_term_and_its_count() -> None:
    ring = {"model": "m", "plan": "c2a42480ffff"}
    assert "plan c2a42480 epoch 3.2" in words({"rings": [{**ring, "epoch": 3 << 32 | 0xABC << 16 | 2}]})
    assert "plan c2a42480 epoch 7" in words({"rings": [{**ring, "epoch": 7}]})


def test_a_ring_names_the_model_that_makes_its_drafts() -> None:
    assert "drafts by" not in words({"rings": [{"model": "m"}]})
    assert "drafts by small" in words({"rings": [{"model": "m", "draft_model": "small"}]})


def test_bars_stand_where_their_layers_are_and_cover_the_model() -> None:
    bars = [line for line in drawn(PICTURE) if "█" in line]
    first, second = (range(line.index("█"), line.rindex("█") + 1) for line in bars)
    assert len(first) > 2 * len(second)
    assert first.stop in (second.start, second.start + 1)


@pytest.mark.parametrize("picture", [{}, {"nodes": [{}], "rings": [{}, {"stages": [{}]}], "events": [{}], "queue": {}}])
def test_a_picture_with_gaps_is_still_drawn(picture: dict[str, Any]) -> None:
    assert drawn(picture)


def test_names_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in "\n".join(drawn({"name": "\x1b[2Jhome", "nodes": [{"name": "a\nb"}]}))
    assert clipped("\x1b[2J" * 9, 8) == " [2J [2…"


def test_durations_and_sizes_use_the_units_that_count() -> None:
    assert [duration(s) for s in (0, 59.9, 61, 3600, 90061)] == ["0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]
    assert duration(90061, units=1) == "1 d"
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
    async with served(ScriptedNode(), keys=FixedKeys("k")) as server:
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
