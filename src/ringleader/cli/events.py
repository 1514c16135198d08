"""`ringleader cluster events`: one line for each event, as it happens; what goes wrong meanwhile is said on stderr."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from contextlib import aclosing
from typing import Any

from ringleader.cli.client import NodeClient, connect
from ringleader.errors import NodeUnreachable

AGAIN_S = 1.0
REMEMBERED = 512  # events; a node sends its last few again to whoever comes back
KIND_COLUMNS = 15


class Told:
    """What was printed already."""

    def __init__(self) -> None:
        self._keys: deque[str] = deque(maxlen=REMEMBERED)

    def is_new(self, event: Any) -> bool:
        """Whether it was not; from now on it was."""
        key = json.dumps(event, sort_keys=True)
        if key in self._keys:
            return False
        self._keys.append(key)
        return True


async def listen(url: str, as_json: bool) -> int:
    """Print events until ^C, and only that ends it: a node that goes away may come back."""
    told, trouble = Told(), ""
    try:
        async with connect(url) as node:
            while True:
                since = time.monotonic()
                try:
                    await _hear(node, told, as_json)
                    said = f"the node at {url} stopped"
                except NodeUnreachable as error:
                    said = str(error)
                if said != trouble or time.monotonic() - since > AGAIN_S:
                    print(f"{said} (still looking, ^C ends)", file=sys.stderr, flush=True)
                trouble = said
                await asyncio.sleep(AGAIN_S)
    except asyncio.CancelledError:
        return 0


async def _hear(node: NodeClient, told: Told, as_json: bool) -> None:
    async with aclosing(node.stream("/v1/cluster/events")) as events:
        async for event in events:
            if told.is_new(event):
                print(json.dumps(event, ensure_ascii=False) if as_json else line(event), flush=True)


def line(event: dict[str, Any]) -> str:
    """One event for people and for grep; never more than one line, whatever its text holds."""
    at = time.strftime("%H:%M:%S", time.localtime(event.get("at") or 0))
    kind = str(event.get("kind") or "note").ljust(KIND_COLUMNS)
    where = f"{event['node']}: " if event.get("node") else ""
    text = f"{at}  {kind}  {where}{event.get('text') or ''}"
    return "".join(char if char.isprintable() else " " for char in text)
