"""Child process: the real HTTP API, desk and parser over a ring that answers at once, one order a line.

Started as `python -m ringleader.bench.api_child DIRECTORY`. Says {"url"}, then answers {"streams", "tokens"} with what
the next so many requests cost this process, from the moment that the last of them was accepted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from ringleader.api.app import make_app, serve
from ringleader.api.contracts import ModelCard
from ringleader.bench.orders import orders, say
from ringleader.cluster.messages import Event, PlanWish, RequestArrived
from ringleader.models.store import Store
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.answer import Desk
from ringleader.node.ingress import Ingress
from ringleader.node.shelf import Shelf
from ringleader.values import Json, ModelId, NodeId, PlanHash, RequestId, SlotSpec

TEXT = (
    "The clock on the harbour wall had stopped again, and nobody but the old woman cared. She set her basket down, "
    "took out a small brass key and began to wind: once for the tide, twice for the boats that had not come home, and "
    "a third time, slowly, for luck. (It was Tuesday.) Two boys watched from the steps; one of them counted aloud.\n\n"
)
CONTEXT = 8192
SETTLE_S = 0.05  # for what accepting the requests left behind
SETTLE_TURNS = 20  # of the loop, for what was read to be written


class InstantRing(RingClient):
    """Gives each of its requests a token a pass; the next pass comes when all of the last one was read and written on.

    So no token can ride on another's write: each is paid for alone, as when a real ring takes its time.
    """

    def __init__(self, desk: Desk, model: ModelId, ids: tuple[int, ...]) -> None:
        super().__init__(PlanHash("0" * 32), 1, desk.tokens, lambda reason: None)
        self._desk = desk
        self._model = model
        self._ids = ids
        self._requests: list[RequestId] = []
        self._arrived = asyncio.Event()

    def submit(self, request: RequestId, prompt: tuple[int, ...], spec: SlotSpec, priority: int = 0) -> None:
        """As the master's hand on a ring."""
        self._requests.append(request)
        self._arrived.set()

    async def answer(self, streams: int, tokens: int) -> dict[str, float]:
        """Wait for `streams` requests, answer them, and tell what it cost."""
        while len(self._requests) < streams:
            self._arrived.clear()
            await self._arrived.wait()
        requests, self._requests = self._requests, []
        await self._settle(SETTLE_S)
        began, cpu = time.perf_counter(), time.process_time()
        read = self._tokens_read()
        for count in range(tokens):
            last = count == tokens - 1
            word = Tokens((self._ids[count % len(self._ids)],), (), "length" if last else "", "", count + 1, 1, 0)
            for request in requests:
                self._desk.tokens(request, word)
            while self._tokens_read() < read + streams * (count + 1):  # noqa: ASYNC110  # an event for each would cost more
                await asyncio.sleep(0)
        await self._settle(0)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        return {"tokens": streams * tokens, "wall_s": wall_s, "cpu_s": cpu_s}

    def _tokens_read(self) -> int:
        meter = self._desk.meters.get(self._model)
        return 0 if meter is None else meter.tokens

    async def _settle(self, seconds: float) -> None:
        """Until what is under way has been written."""
        await asyncio.sleep(seconds)
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)


class Nobody:
    """A cluster of which nothing is to be told."""

    async def cards(self) -> list[ModelCard]:
        return []

    async def cluster(self) -> dict[str, Json]:
        return {}

    def health(self) -> dict[str, Json]:
        return {"status": "ok"}


class OwnDesk:
    """This process leads."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def source(self) -> tuple[NodeId, Desk]:
        return NodeId("bench"), self._desk


async def _serve(directory: Path) -> None:
    store = Store()
    shelf = Shelf(store, (str(directory),), CONTEXT)
    model = store.model_id(str(directory))
    entry = await shelf.entry(model)

    def tell(event: Event) -> None:
        if isinstance(event, RequestArrived):
            asyncio.get_running_loop().call_soon(desk.dispatch, event.request, ring)

    desk = Desk(shelf, tell, PlanWish(context_tokens=CONTEXT))
    ring = InstantRing(desk, model, tuple(entry.voice.tokenizer.encode(TEXT)))
    server = await serve(make_app(Ingress(OwnDesk(desk)), Nobody(), Nobody()), port=0)
    say(url=server.url, model=model)
    async for order in orders():
        if "profile" in order:
            say(**await _profiled(ring, order))
        else:
            say(**await ring.answer(order["streams"], order["tokens"]))
    await server.close()


async def _profiled(ring: InstantRing, order: dict[str, Any]) -> dict[str, float]:
    """As `answer`, with the profile of this process written to a file: what is slow here is found by it."""
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    found = await ring.answer(order["streams"], order["tokens"])
    profile.disable()
    profile.dump_stats(order["profile"])
    return found


def main() -> None:
    """Serve until standard input closes."""
    import uvloop

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    uvloop.run(_serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
