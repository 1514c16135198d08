"""`ringleader status`: nodes, rings, requests, on one screen or as JSON. `status_page` draws it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ringleader.cli.client import DEFAULT_URL, NodeClient, connect, run
from ringleader.cli.status_page import page
from ringleader.cli.status_text import clipped
from ringleader.errors import NodeUnreachable, RingleaderError

REDRAW_S = 1.0
COLUMNS_PIPED = 80


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Draw again every second, until ^C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the /v1/cluster object; one a line with --watch.")
    ] = False,
    url: Annotated[str, typer.Option(envvar="RINGLEADER_URL", help="A node's API.")] = DEFAULT_URL,
) -> None:
    """Show nodes, links, rings and requests."""
    raise typer.Exit(run(_watch(url, as_json) if watch else _once(url, as_json)))


async def _once(url: str, as_json: bool) -> int:
    async with connect(url) as node:
        cluster = await node.fetch("/v1/cluster")
    print(json.dumps(cluster, indent=2) if as_json else "\n".join(_drawn(cluster)))
    return 0


async def _watch(url: str, as_json: bool) -> int:
    """^C ends it, and only that: a node that goes away may come back."""
    try:
        async with connect(url) as node:
            await (_live(node) if sys.stdout.isatty() and not as_json else _printed(node, as_json))
    except asyncio.CancelledError:
        pass
    return 0


Picture = dict[str, Any] | tuple[RingleaderError, float]  # what a node said, or why none does and for how long


async def _pictures(node: NodeClient) -> AsyncIterator[Picture]:
    gone_since: float | None = None
    while True:
        try:
            cluster: dict[str, Any] = await node.fetch("/v1/cluster")
            gone_since = None
            yield cluster
        except NodeUnreachable as error:
            gone_since = gone_since or time.monotonic()
            yield error, time.monotonic() - gone_since
        await asyncio.sleep(REDRAW_S)


async def _printed(node: NodeClient, as_json: bool) -> None:
    async for picture in _pictures(node):
        lines = [json.dumps(_as_object(picture))] if as_json else [*_lines(picture), ""]
        print("\n".join(lines), flush=True)


async def _live(node: NodeClient) -> None:
    """On a terminal: each picture is drawn over the last one, on a screen of its own; the last one stays behind."""
    console, lines = Console(), list[str]()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            async for picture in _pictures(node):
                lines = _lines(picture, rows=console.height)
                live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)
    finally:
        print("\n".join(lines))


def _lines(picture: Picture, rows: int | None = None) -> list[str]:
    if isinstance(picture, dict):
        return _drawn(picture, rows)
    error, for_s = picture
    said = [str(error), f"(gone for {for_s:.0f} s; still looking, ^C ends)"]
    return [clipped(line, _columns()) for each in said for line in textwrap.wrap(each, _columns())]


def _as_object(picture: Picture) -> dict[str, Any]:
    if isinstance(picture, dict):
        return picture
    error, for_s = picture
    return {"error": str(error), "for_s": round(for_s, 1)}


def _drawn(cluster: dict[str, Any], rows: int | None = None) -> list[str]:
    return page(cluster, _columns(), now=time.time(), rows=rows)


def _columns() -> int:
    return shutil.get_terminal_size((COLUMNS_PIPED, 24)).columns if sys.stdout.isatty() else COLUMNS_PIPED
