"""What the ring makes of stages that each take the time of a machine of their own: parts of the ideal.

Ideals, for stages that all take the same time P for a pass (weights read once) or T a token where that is more:
    decode, 1 stream, S stages:      S x P a token: nothing can be done at once
    decode, N streams, S stages:     N / S rows a pass, a pass each P in every stage: N / (S x P) tokens a second
    prompt of L tokens, S stages:    L x T in the first stage, then the last piece, of no length, through the others,
                                     which read their weights for it: L x T + (S - 1) x P seconds to the first token
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import Conditions
from ringleader.bench.load import Subject, rate, subject, together
from ringleader.bench.report import Findings, Line
from ringleader.bench.ring import BenchRing, open_ring
from ringleader.bench.tiny import tiny_model
from ringleader.shard.pace import Pace
from ringleader.values import ModelId

PACE = Pace(pass_s=0.02, prompt_token_s=0.0005)
STREAMS = 8
SHORT_PROMPT, LONG_PROMPT = 20, 2000
WARM_TOKENS = 8
Say = Callable[[str], None]


def ideal_rate(pace: Pace, streams: int, stages: int) -> float:
    """Tokens a second of all streams, every stage always busy."""
    rows = max(1, streams // stages)
    return min(rows / pace.seconds(rows), streams / (stages * pace.seconds(1)))


def ideal_prompt_s(pace: Pace, tokens: int, stages: int) -> float:
    """Seconds to a prompt's first token."""
    return pace.seconds(tokens) + (stages - 1) * pace.seconds(1)


async def paced_decode(real: Path, under: Conditions, rounds: int, tokens: int, say: Say) -> Findings:
    """One stream over four stages."""
    pace = _pace(under)
    over: list[float] = []
    with tiny_model(real) as directory:
        about = subject(directory, ModelId("tiny"))
        say(f"starting a paced ring of 4 stages, {pace.pass_s * 1e3:g} ms each")
        async with open_ring(directory, about.costs.layers, 4, under=under) as ring:
            await _warm(ring, about)
            for number in range(rounds):
                prompt = about.prompt(SHORT_PROMPT, number)
                run = await ring.ask(prompt, about.lasting(prompt, tokens))
                over.append(run.token_s / (4 * pace.seconds(1)))
    value = round(median(over), 4)
    line = Line("paced: 1 stream over 4 stages, time a token over the stages'", f"{value:.3f}")
    return Findings((line,), {"paced_four_overhead": value})


async def paced_concurrency(
    real: Path, under: Conditions, rounds: int, tokens: int, stages: tuple[int, ...], say: Say
) -> Findings:
    """Eight streams over so many stages."""
    pace = _pace(under)
    rows: list[Line] = []
    values: dict[str, float] = {}
    with tiny_model(real) as directory:
        about = subject(directory, ModelId("tiny"))
        for count in stages:
            say(f"starting a paced ring of {count} stages, {pace.pass_s * 1e3:g} ms each")
            async with open_ring(directory, about.costs.layers, count, under=under) as ring:
                await _warm(ring, about)
                found = [
                    rate(await together(ring, about, STREAMS, SHORT_PROMPT, tokens, number)) for number in range(rounds)
                ]
            ideal = ideal_rate(pace, STREAMS, count)
            value = round(median(found) / ideal, 4)
            values[f"paced_{WORDS[count]}_of_ideal"] = value
            values[f"paced_{WORDS[count]}_tok_s"] = round(median(found), 2)
            shown = f"{median(found):.1f} of {ideal:.1f} tok/s = {value:.3f}"
            rows.append(Line(f"paced: {STREAMS} streams over {count} stages, of the ideal", shown))
    return Findings(tuple(rows), {**values})


async def paced_prefill(real: Path, under: Conditions, rounds: int, say: Say) -> Findings:
    """One long prompt over two stages. The first rounds are not counted: the head learns what chunks take."""
    pace = _pace(under)
    ideal = ideal_prompt_s(pace, LONG_PROMPT, 2)
    found: list[float] = []
    with tiny_model(real) as directory:
        about = subject(directory, ModelId("tiny"))
        say("starting a paced ring of 2 stages")
        async with open_ring(directory, about.costs.layers, 2, under=under) as ring:
            await _warm(ring, about)
            for number in range(LEARNING + rounds):
                prompt = about.prompt(LONG_PROMPT, 100 + number)
                run = await ring.ask(prompt, about.lasting(prompt, 2))
                found.append(run.first_s)
    later, cold = median(found[LEARNING:]), found[0]
    value = round(ideal / later, 4)
    rows = (
        Line(
            f"paced: {LONG_PROMPT} tokens over 2 stages, of the ideal",
            f"{later:.3f} s, ideal {ideal:.3f} = {value:.3f}",
        ),
        Line("the same, the first prompt of a ring", f"{cold:.3f} s = {ideal / cold:.3f}"),
    )
    return Findings(rows, {"paced_two_of_ideal": value, "paced_two_first_of_ideal": round(ideal / cold, 4)})


LEARNING = 2
WORDS = {1: "one", 2: "two", 4: "four"}


def _pace(under: Conditions) -> Pace:
    assert under.pace is not None, "a paced measure has a pace"
    return under.pace


async def _warm(ring: BenchRing, about: Subject) -> None:
    prompt = about.prompt(SHORT_PROMPT, 999)
    await ring.ask(prompt, about.lasting(prompt, WARM_TOKENS))
