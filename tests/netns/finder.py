"""Runs one Discovery for the tests in namespaces: arguments are JSON, every event is one JSON line."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

import uvloop

from ringleader.net.advert import Advert
from ringleader.net.discovery import Discovery
from ringleader.net.mdns import Budget
from ringleader.net.neighbours import News
from ringleader.values import NodeId


def say(event: dict[str, Any]) -> None:
    print(json.dumps({"at": time.monotonic(), **event}), flush=True)


async def main() -> None:
    options = json.loads(sys.argv[1])

    def tell(event: News) -> None:
        say({"event": type(event).__name__, **asdict(event)})

    node = options["node"]
    advert = Advert(NodeId(node), node, options.get("cluster", ""), options.get("port", 7000), version=1)
    budget = Budget(*options["budget"]) if "budget" in options else Budget()
    discovery = Discovery(advert, tell, host=options.get("host", "0.0.0.0"), budget=budget)
    running = asyncio.create_task(discovery.run(), name="discovery")
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    say({"event": "Started"})
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()
    say({"event": "Ended"})


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    uvloop.run(main())
