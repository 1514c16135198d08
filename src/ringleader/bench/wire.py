"""What coded activations cost in quality: the next token's probabilities at places of a text, against uncoded ones.

Both rings are given the same beginnings of the text, so that one's error at a place does not carry on to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from ringleader.bench.decode import PROMPT, greedy
from ringleader.bench.report import Flat, Line
from ringleader.bench.ring import BenchRing, open_ring
from ringleader.models.headers import read_costs
from ringleader.tokenizer import load_tokenizer
from ringleader.values import Coding, ModelId, TokenLogprob

CODINGS: tuple[Coding, ...] = ("bf16", "int8")
TEXT = (
    f"{PROMPT} opened the shutters, put the kettle on and wound the big clock above the door. One Tuesday the clock "
    "stood still. def area(width, height):\n    return width * height\n\nThe capital of Norway is Oslo, and that of "
    "Sweden is Stockholm. "
)
FIRST_PLACE, STRIDE = 4, 2
TOP = 20  # alternatives that a tail tells of: nearly all of the probability at most places


@dataclass(frozen=True, slots=True)
class Cost:
    """`divergence` is the mean Kullback-Leibler divergence in nats over the likeliest tokens; `agreed` the share of
    places whose likeliest token stayed; `frame_bytes` a decode frame's, and uncoded."""

    coding: Coding
    divergence: float
    agreed: float
    frame_bytes: int
    plain_bytes: int


@dataclass(frozen=True, slots=True)
class WireResult:
    """What each coding costs."""

    places: int
    costs: tuple[Cost, ...]

    def lines(self) -> list[Line]:
        """For the table."""
        lines = []
        for each in self.costs:
            lines.append(Line(f"{each.coding}: divergence of the next token", f"{each.divergence:.2e} nats"))
            lines.append(Line(f"{each.coding}: likeliest token unchanged", f"{each.agreed:.1%}"))
            lines.append(Line(f"{each.coding}: bytes of a decode frame", f"{each.frame_bytes} of {each.plain_bytes}"))
        return lines

    def flat(self) -> Flat:
        """For --json."""
        found: Flat = {"places": self.places}
        for each in self.costs:
            found[f"{each.coding}_divergence_nats"] = float(f"{each.divergence:.3e}")
            found[f"{each.coding}_agreed"] = round(each.agreed, 4)
            found[f"{each.coding}_frame_bytes"] = each.frame_bytes
            found["plain_frame_bytes"] = each.plain_bytes
        return found


async def measure_wire(directory: Path, model: ModelId, say: Callable[[str], None]) -> WireResult:
    """Run the whole benchmark. Raises ModelFault and PeerFault with what went wrong."""
    layers = read_costs(directory, model).layers
    text = tuple(load_tokenizer(directory).encode(TEXT))
    places = range(FIRST_PLACE, len(text) + 1, STRIDE)
    plain, plain_bytes = await _read(directory, layers, "same", text, places, say)
    costs = []
    for coding in CODINGS:
        coded, frame_bytes = await _read(directory, layers, coding, text, places, say)
        agreed = mean(a.token == b.token for a, b in zip(plain, coded, strict=True))
        off = mean(divergence(a, b) for a, b in zip(plain, coded, strict=True))
        costs.append(Cost(coding, off, agreed, frame_bytes, plain_bytes))
    return WireResult(len(places), tuple(costs))


async def _read(
    directory: Path,
    layers: int,
    coding: Coding,
    text: tuple[int, ...],
    places: Sequence[int],
    say: Callable[[str], None],
) -> tuple[list[TokenLogprob], int]:
    """The next token after each place, and the bytes of a decode frame."""
    say(f"two shards, activations {'as they are' if coding == 'same' else f'as {coding}'}")
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_ring(directory, layers, 2, coding=coding))
        found = [await _next_token(ring, text[:place]) for place in places]
        return found, (await ring.ask(text, greedy(text, 4))).frame_bytes


async def _next_token(ring: BenchRing, prompt: tuple[int, ...]) -> TokenLogprob:
    run = await ring.ask(prompt, replace(greedy(prompt, 1), top_logprobs=TOP))
    return run.logprobs[0]


def divergence(plain: TokenLogprob, coded: TokenLogprob) -> float:
    """KL(plain || coded) over the tokens that both tell of, each side's rest taken together."""
    others = dict(coded.top)
    pairs = [(logprob, others[token]) for token, logprob in plain.top if token in others]
    told = sum(math.exp(mine) * (mine - theirs) for mine, theirs in pairs)
    rest = [max(1e-9, 1 - sum(math.exp(side[i]) for side in pairs)) for i in (0, 1)]
    return max(0.0, told + rest[0] * math.log(rest[0] / rest[1]))
