"""How many tokens a second the API and the parser can stream on one core: 64 streams of a ring that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from ringleader.bench.child import open_child
from ringleader.bench.report import Findings, Line
from ringleader.errors import PeerFault

STREAMS = 64
EVENTS_EACH = 3  # besides one for each token: the role, how it ended, [DONE]


async def measure_api(
    directory: Path, tokens: int, rounds: int, profile: Path | None, say: Callable[[str], None]
) -> Findings:
    """The real server in one process, a client that does next to nothing in another.

    `tokens_per_s` is by the clock; by the server's own processor time it is more where other work is on the machine.
    With `profile` one more round is written there, for pstats. Raises PeerFault when streams are not whole.
    """
    wall: list[float] = []
    core: list[float] = []
    server_module, client_module = "ringleader.bench.api_child", "ringleader.bench.api_client"
    async with open_child(server_module, str(directory)) as server, open_child(client_module) as client:
        about = await server.hear()
        url = urlsplit(str(about["url"]))
        asked = {"host": url.hostname, "port": url.port, "model": about["model"], "streams": STREAMS, "tokens": tokens}
        for number in range(rounds + 1 + (profile is not None)):
            profiled = number > rounds
            say(f"round {number} of {rounds}" if number else "warming up")
            order = {"streams": STREAMS, "tokens": tokens, **({"profile": str(profile)} if profiled else {})}
            came, found = await asyncio.gather(client.ask(**asked), server.ask(**order))
            if came["ended"] != STREAMS or came["events"] != STREAMS * (tokens + EVENTS_EACH):
                raise PeerFault(f"of {STREAMS} streams of {tokens} tokens came {came['events']} events: {came}")
            if number and not profiled:
                wall.append(found["tokens"] / found["wall_s"])
                core.append(found["tokens"] / found["cpu_s"])
    rows = (
        Line(f"{STREAMS} streams, tokens a second", f"{median(wall):.0f}"),
        Line("by the server's own processor time", f"{median(core):.0f}"),
    )
    values = {"tokens_per_s": round(median(wall), 1), "tokens_per_core_s": round(median(core), 1), "streams": STREAMS}
    return Findings(rows, {**values, "tokens": tokens})
