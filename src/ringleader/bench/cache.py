"""What a conversation's second turn waits for its first token, against the first: what kept prefixes are worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import Conditions
from ringleader.bench.load import subject
from ringleader.bench.report import Findings, Line
from ringleader.bench.ring import open_ring
from ringleader.values import ModelId

ANSWER_TOKENS = 16
FURTHER_TOKENS = 24  # what the user says next


async def measure_cache(
    directory: Path,
    model: ModelId,
    under: Conditions,
    shards: int,
    prompt_tokens: int,
    rounds: int,
    say: Callable[[str], None],
) -> Findings:
    """A prompt of so many tokens, its answer, and the conversation going on. Raises ModelFault and PeerFault."""
    about = subject(directory, model)
    first: list[float] = []
    second: list[float] = []
    cached = 0
    say(f"starting a ring of {shards}")
    async with open_ring(directory, about.costs.layers, shards, under=under) as ring:
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            prompt = about.prompt(prompt_tokens if number else 64, 700 + number)
            turn = await ring.ask(prompt, about.lasting(prompt, ANSWER_TOKENS))
            further = (*prompt, *turn.tokens, *about.prompt(FURTHER_TOKENS, 800 + number))
            following = await ring.ask(further, about.lasting(further, ANSWER_TOKENS))
            if number:
                first.append(turn.first_s)
                second.append(following.first_s)
                cached = following.cached_tokens
    value = median(b / a for a, b in zip(first, second, strict=True))
    rows = (
        Line(f"first turn, {prompt_tokens} tokens, to the first token", f"{median(first):.2f} s"),
        Line("second turn", f"{median(second):.2f} s ({cached} tokens kept)"),
        Line("second / first", f"{value:.3f}"),
    )
    values = {"second_turn_vs_first": round(value, 4), "first_turn_s": round(median(first), 3)}
    return Findings(rows, {**values, "second_turn_s": round(median(second), 3), "cached_tokens": cached})
