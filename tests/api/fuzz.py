"""Fuzz of every door over real sockets: nothing hangs, nothing but a node's own fault is a 5xx, every shape is right.

`python -m tests.api.fuzz --minutes 30` goes on for so long, and prints what it found as a session to be tried again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from hypothesis import HealthCheck, Phase, given, seed, settings
from yarl import URL

from ringleader.api.app import ApiServer, make_app, serve
from ringleader.node.response_store import SqliteResponses
from tests.api.fuzz_node import FuzzKeys, FuzzLibrary, FuzzNode, Letters
from tests.api.fuzz_rules import check_answer
from tests.api.fuzz_shots import STORED, Session, Shot, sessions

HANGS_S = 30.0  # a request that takes longer hangs, whatever the machine has to do besides
KEEP_ALIVE_S = 0.002
ROUND = 300  # sessions with one seed
BROKEN_OFF = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)
SETTINGS = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


async def play(session: Session) -> None:
    """All requests of a session, each held to the rules; and no answer may be left open."""
    node = FuzzNode(session.script)
    with TemporaryDirectory() as folder:
        store = SqliteResponses(Path(folder) / "responses.sqlite")
        app = make_app(
            node,
            node,
            node,
            tokenizing=Letters(),
            responses=store,
            library=FuzzLibrary(session.script),
            keys=FuzzKeys(asks=session.keys),
            keep_alive_s=KEEP_ALIVE_S,
        )
        server = await serve(app, port=0, shutdown_s=0.05)
        try:
            await _play(session, node, server)
        finally:
            await server.close()
            await store.close()
    for deltas in node.given:
        assert deltas.closings == 1, "every answer is closed, once"


async def _play(session: Session, node: FuzzNode, server: ApiServer) -> None:
    timeout = aiohttp.ClientTimeout(total=HANGS_S)
    stored = None
    one_each = aiohttp.TCPConnector(force_close=True)  # aiohttp closes without a word where a body was broken
    async with aiohttp.ClientSession(timeout=timeout, connector=one_each, auto_decompress=False) as client:
        for shot in session.shots:
            said = await fire(client, server.url, shot, stored, faulty=session.script.faulty)
            stored = said or stored
            async with asyncio.timeout(HANGS_S):
                for deltas in node.given:
                    await deltas.closed.wait()


async def fire(client: aiohttp.ClientSession, url: str, shot: Shot, stored: str | None, *, faulty: bool) -> str | None:
    """Send one request and check what comes. Gives the id of the response that it made, if it did."""
    target = URL(url + shot.path.replace(STORED, stored or "resp_none"))
    raw = shot.raw.replace(f'"{STORED}"'.encode(), json.dumps(stored).encode())
    async with client.request(shot.method, target, data=raw, headers=shot.headers) as response:
        if shot.leaves is not None:
            await response.content.read(shot.leaves)
            response.close()
            return None
        text = (await response.read()).decode()
        check_answer(shot, response.status, response.headers, text, faulty=faulty)
    found = text.partition('"id":')[2].lstrip().partition('"')[2].partition('"')[0]
    return found if found.startswith("resp_") else None


def fuzz(runner: asyncio.Runner, examples: int, seeded: int | None = None) -> None:
    """So many sessions, drawn from this seed. Raises for the smallest that breaks a rule."""

    @settings(SETTINGS, max_examples=examples, derandomize=seeded is None, phases=[Phase.generate, Phase.shrink])
    @given(sessions())
    def run(session: Session) -> None:
        runner.run(play(session))

    tried: Any = run if seeded is None else seed(seeded)(run)
    tried()


def main() -> None:
    """Fuzz for so many minutes. Ends with 1 at the first that is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    since, rounds = time.monotonic(), 0
    with asyncio.Runner() as runner:
        while (took_s := time.monotonic() - since) < asked.minutes * 60:
            fuzz(runner, ROUND, asked.seed + rounds)
            rounds += 1
            print(f"{took_s / 60:.1f} min: {rounds * ROUND} sessions, seed {asked.seed + rounds - 1}", flush=True)
    print(f"{rounds * ROUND} sessions in {(time.monotonic() - since) / 60:.1f} min: nothing found")
    sys.exit(0)


if __name__ == "__main__":
    main()
