"""What an answer that runs notices of a long prompt that comes: the gaps between its tokens, before and meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import Conditions
from ringleader.bench.load import Subject, subject
from ringleader.bench.ratios import percentile
from ringleader.bench.report import Findings, Flat, Line
from ringleader.bench.ring import BenchRing, Run, open_ring
from ringleader.bench.tiny import tiny_model
from ringleader.values import ModelId

SHORT_PROMPT = 24
ALONE_S = 4.0  # how long the answer runs before the prompt comes
ANSWER_MAX = 4000


async def measure_rhythm(
    directory: Path,
    model: ModelId,
    under: Conditions,
    shards: int,
    prompt_tokens: int,
    rounds: int,
    say: Callable[[str], None],
) -> Findings:
    """The median gap is that of the same answer while it runs alone: the strict reading.

    Raises ModelFault and PeerFault with what went wrong.
    """
    return await _measured(subject(directory, model), under, shards, prompt_tokens, rounds, "", say)


async def paced_rhythm(
    real: Path, under: Conditions, shards: int, prompt_tokens: int, rounds: int, say: Callable[[str], None]
) -> Findings:
    """The same of stages at a pace, whose times do not depend on what else the machine does."""
    with tiny_model(real) as directory:
        about = subject(directory, ModelId("tiny"))
        return await _measured(about, under, shards, prompt_tokens, rounds, "paced_", say)


async def _measured(
    about: Subject,
    under: Conditions,
    shards: int,
    prompt_tokens: int,
    rounds: int,
    kind: str,
    say: Callable[[str], None],
) -> Findings:
    before: list[float] = []
    meanwhile: list[float] = []
    prompt_s: list[float] = []
    async with open_ring(about.directory, about.costs.layers, shards, under=under) as ring:
        for number in range(rounds + 1):
            length = prompt_tokens if number else 256  # the first is for warming up
            say(f"round {number} of {rounds}: a prompt of {length} tokens beside an answer")
            alone, beside, took = await _round(ring, about, length, number)
            if number:
                before += alone
                meanwhile += beside
                prompt_s.append(took)
    calm, busy = median(before), median(meanwhile)
    value = round(percentile(meanwhile, 99) / calm, 3)
    named = "paced: " if kind else ""
    rows = (
        Line(f"{named}median gap of an answer alone", f"{calm * 1e3:.0f} ms"),
        Line(f"{named}median gap while the prompt is computed", f"{busy * 1e3:.0f} ms"),
        Line(f"{named}p99 gap meanwhile", f"{percentile(meanwhile, 99) * 1e3:.0f} ms"),
        Line(f"{named}p99 meanwhile / median alone", f"{value:.2f}"),
        Line(f"{named}p99 meanwhile / median meanwhile", f"{percentile(meanwhile, 99) / busy:.2f}"),
    )
    values: Flat = {
        "p99_gap_vs_median": value,
        "p99_gap_vs_median_meanwhile": round(percentile(meanwhile, 99) / busy, 3),
        "median_gap_ms": round(calm * 1e3, 2),
        "median_gap_meanwhile_ms": round(busy * 1e3, 2),
        "p99_gap_meanwhile_ms": round(percentile(meanwhile, 99) * 1e3, 2),
        "prompt_s": round(median(prompt_s), 2),
        "gaps": len(meanwhile),
    }
    return Findings(rows, {kind + key: found for key, found in values.items()})


async def _round(ring: BenchRing, about: Subject, length: int, seed: int) -> tuple[list[float], list[float], float]:
    """The gaps of a running answer before the prompt came, and until its first token; when that came."""
    begun, enough = asyncio.Event(), asyncio.Event()
    short, long = about.prompt(SHORT_PROMPT, 500 + seed), about.prompt(length, 600 + seed)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ring.ask(short, about.lasting(short, ANSWER_MAX), begun, enough))
        await begun.wait()
        await asyncio.sleep(ALONE_S)
        arrived = await ring.ask(long, about.lasting(long, 2))
        enough.set()
    return (*gaps(running.result(), arrived), arrived.first_s)


def gaps(running: Run, arrived: Run) -> tuple[list[float], list[float]]:
    """The gaps between an answer's tokens before another request came, and those until that one's first token."""
    at = [running.started_s + seconds for seconds, _ in running.arrivals]
    came, answered = arrived.started_s, arrived.started_s + arrived.first_s
    before = [later - earlier for earlier, later in pairwise(at) if later <= came]
    meanwhile = [later - earlier for earlier, later in pairwise(at) if later > came and earlier < answered]
    return before[1:], meanwhile  # the first gap is that after the prompt
