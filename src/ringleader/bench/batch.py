"""What sharing passes is worth: tokens a second of many requests at once, and how soon a newcomer is answered.

The contestants are two rings of the same code; one is linked such that requests take turns, a segment a frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ringleader.bench.decode import PROMPT, greedy
from ringleader.bench.ratios import paired_ratio, turns
from ringleader.bench.report import Flat, Line
from ringleader.bench.ring import BenchRing, Run, open_ring
from ringleader.models.headers import read_costs
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ModelId

COUNTS = (1, 4, 16)  # requests at once
RUNNING = 8  # answers that run when a newcomer comes
WARM_UP_TOKENS = 4
NEWCOMER_TOKENS = 2
TOGETHER, IN_TURN = "together", "in turn"


@dataclass(slots=True)
class Contestant:
    """A ring, and what it did in each round: tokens a second for each number of requests, the newcomer's wait."""

    name: str
    ring: BenchRing
    tok_s: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in COUNTS})
    newcomer_s: list[float] = field(default_factory=list)

    async def play(self, prompt: tuple[int, ...], tokens: int) -> None:
        """One round. Who is answered first is given more to say, so that there is a time when all are answered."""
        for count in COUNTS:
            asked = (self._ask(prompt, number, tokens + 2 * (count - number)) for number in range(count))
            runs = await asyncio.gather(*asked)
            self.tok_s[count].append(rate(runs))
        self.newcomer_s.append(await self._newcomer(prompt, tokens))

    async def _newcomer(self, prompt: tuple[int, ...], tokens: int) -> float:
        """Seconds to the first token of a request that comes while others are answered."""
        begun = [asyncio.Event() for _ in range(RUNNING)]
        async with asyncio.TaskGroup() as group:
            for number, event in enumerate(begun):
                group.create_task(self._ask(prompt, number, tokens, event))
            await asyncio.gather(*(event.wait() for event in begun))
            return (await self._ask(prompt, RUNNING, NEWCOMER_TOKENS)).arrivals[0][0]

    async def _ask(self, prompt: tuple[int, ...], number: int, tokens: int, begun: asyncio.Event | None = None) -> Run:
        """A request whose prompt has its own length and is like no other's."""
        own = (*prompt[number % len(prompt) :], *prompt[: 1 + number])
        return await self.ring.ask(own, greedy(own, tokens), begun)


def rate(runs: list[Run]) -> float:
    """Tokens a second while all were answered: from the last first token to the first last one."""
    begin, end = max(run.arrivals[0][0] for run in runs), min(run.arrivals[-1][0] for run in runs)
    if end <= begin:  # they did not run at the same time: all tokens over all the time
        return sum(len(run.tokens) for run in runs) / max(run.wall_s for run in runs)
    return sum(count for run in runs for at, count in run.arrivals if begin < at <= end) / (end - begin)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Medians over the rounds; `gains` are the rounds' own ratios, together over in turn."""

    shards: int
    tok_s: dict[str, dict[int, float]]
    gains: dict[int, float]
    newcomer_s: dict[str, float]
    newcomer_ratio: float

    def lines(self) -> list[Line]:
        """For the table."""
        lines = []
        for count in COUNTS:
            both = f"{self.tok_s[TOGETHER][count]:.1f} / {self.tok_s[IN_TURN][count]:.1f} tok/s"
            lines.append(Line(f"{count} at once: together / in turn", f"{both} = {self.gains[count]:.2f}"))
        eight = f"{self.newcomer_s[TOGETHER]:.2f} / {self.newcomer_s[IN_TURN]:.2f} s = {self.newcomer_ratio:.2f}"
        return [*lines, Line(f"first token of one that comes while {RUNNING} run", eight)]

    def flat(self) -> Flat:
        """For --json."""
        found: Flat = {"shards": self.shards, "newcomer_ratio": round(self.newcomer_ratio, 3)}
        for count in COUNTS:
            found[f"gain_{count}"] = round(self.gains[count], 3)
            for name, key in ((TOGETHER, "together"), (IN_TURN, "in_turn")):
                found[f"{key}_{count}_tok_s"] = round(self.tok_s[name][count], 2)
        found["together_newcomer_s"] = round(self.newcomer_s[TOGETHER], 3)
        found["in_turn_newcomer_s"] = round(self.newcomer_s[IN_TURN], 3)
        return found


async def measure_batch(
    directory: Path, model: ModelId, shards: int, tokens: int, rounds: int, say: Callable[[str], None]
) -> BatchResult:
    """Run the whole benchmark. Raises ModelFault and PeerFault with what went wrong."""
    costs = read_costs(directory, model)
    prompt = tuple(load_tokenizer(directory).encode(PROMPT))
    say(f"starting two rings of {shards} shards")
    async with AsyncExitStack() as stack:
        both = [
            Contestant(name, await stack.enter_async_context(open_ring(directory, costs.layers, shards, batches=share)))
            for name, share in ((TOGETHER, True), (IN_TURN, False))
        ]
        for each in both:
            await each.ring.ask(prompt, greedy(prompt, WARM_UP_TOKENS))
        for number, order in enumerate(turns(both, rounds), 1):
            for each in order:
                say(f"round {number} of {rounds}, {each.name}")
                await each.play(prompt, tokens)
    together, in_turn = both
    return BatchResult(
        shards=shards,
        tok_s={each.name: {count: median(each.tok_s[count]) for count in COUNTS} for each in both},
        gains={count: paired_ratio(together.tok_s[count], in_turn.tok_s[count]) for count in COUNTS},
        newcomer_s={each.name: median(each.newcomer_s) for each in both},
        newcomer_ratio=paired_ratio(together.newcomer_s, in_turn.newcomer_s),
    )
