"""`ringleader status`: nodes, rings, requests, on one screen or as JSON. `status_page` draws it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from typing import Annotated, Any

import typer

from ringleader.cli.client import DEFAULT_URL, connect, run
from ringleader.cli.status_page import page
from ringleader.errors import NodeUnreachable, RingleaderError

REDRAW_S = 1.0
COLUMNS_PIPED = 80
CLEAR = "\x1b[H\x1b[2J"


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Draw again every second, until ^C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the /v1/cluster object; one a line with --watch.")
    ] = False,
    url: Annotated[str, typer.Option(envvar="RINGLEADER_URL", help="A node's API.")] = DEFAULT_URL,
) -> None:
    """Show nodes, rings and requests."""
    raise typer.Exit(run(_watch(url, as_json) if watch else _once(url, as_json)))


async def _once(url: str, as_json: bool) -> int:
    async with connect(url) as node:
        cluster = await node.fetch("/v1/cluster")
    print(json.dumps(cluster, indent=2) if as_json else _drawn(cluster))
    return 0


async def _watch(url: str, as_json: bool) -> int:
    """^C ends it, and only that: a node that goes away may come back."""
    gone_since: float | None = None
    try:
        async with connect(url) as node:
            while True:
                try:
                    cluster = await node.fetch("/v1/cluster")
                    gone_since = None
                    text = json.dumps(cluster) if as_json else _drawn(cluster)
                except RingleaderError as error:
                    if not isinstance(error, NodeUnreachable):
                        raise
                    gone_since = gone_since or time.monotonic()
                    text = _missing(error, time.monotonic() - gone_since, as_json)
                print((CLEAR if sys.stdout.isatty() and not as_json else "") + text, flush=True)
                await asyncio.sleep(REDRAW_S)
    except asyncio.CancelledError:
        return 0


def _drawn(cluster: Any) -> str:
    columns = shutil.get_terminal_size((COLUMNS_PIPED, 24)).columns if sys.stdout.isatty() else COLUMNS_PIPED
    return "\n".join(page(cluster, columns))


def _missing(error: RingleaderError, for_s: float, as_json: bool) -> str:
    if as_json:
        return json.dumps({"error": str(error), "for_s": round(for_s, 1)})
    return f"{error}\n(gone for {for_s:.0f} s; still looking, ^C ends)"
