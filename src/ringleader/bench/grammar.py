"""What a grammar costs: to build, to mask one step, and in time a token on a real ring.

The ring answers one prompt in free text, by turns under the grammar of `tool_choice: auto` and without any.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from ringleader.bench.forced_call import WEATHER
from ringleader.bench.ratios import paired_ratio, percentile, turns
from ringleader.bench.report import Flat, Line, at_most
from ringleader.bench.ring import Run, open_ring
from ringleader.language.prompt import Voice, compose, voice
from ringleader.models.headers import read_costs
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import ChatRequest, Message, ModelId, Sampling, SlotSpec

GRAMMAR_VS_FREE_MAX = 1.05
STEPS = 200  # random legal steps whose masks are timed, for each choice
CHOICES: dict[str, Any] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "named": {"type": "function", "function": {"name": WEATHER.name}},
}


@dataclass(frozen=True, slots=True)
class ChoiceCost:
    """`compose_ms` is the whole of text in, warm; masks in microseconds."""

    choice: str
    compose_ms: float
    mask_p50_us: float
    mask_p90_us: float


@dataclass(frozen=True, slots=True)
class GrammarResult:
    """`grammar_vs_free` is time a token under auto's grammar over that without one."""

    dialect: str
    grammar_vs_free: float
    choices: tuple[ChoiceCost, ...]

    def lines(self) -> list[Line]:
        """For the table."""
        costs = [
            Line(
                f"{cost.choice}: compose, mask p50, p90",
                f"{cost.compose_ms:.1f} ms, {cost.mask_p50_us:.0f} us, {cost.mask_p90_us:.0f} us",
            )
            for cost in self.choices
        ]
        return [
            Line("dialect", self.dialect),
            *costs,
            at_most("time a token, grammar / none", self.grammar_vs_free, GRAMMAR_VS_FREE_MAX, "{:.3f}"),
        ]

    def flat(self) -> Flat:
        """For --json."""
        flat: Flat = {"dialect": self.dialect, "grammar_vs_free": round(self.grammar_vs_free, 4)}
        for cost in self.choices:
            flat[f"{cost.choice}_compose_ms"] = round(cost.compose_ms, 3)
            flat[f"{cost.choice}_mask_p50_us"] = round(cost.mask_p50_us, 1)
            flat[f"{cost.choice}_mask_p90_us"] = round(cost.mask_p90_us, 1)
        return flat


def asked(model: ModelId, choice: Any) -> ChatRequest:
    """A request that a model answers in text, with one tool at hand."""
    return ChatRequest(
        model=model,
        messages=(Message("user", "Tell me a long story about the sea."),),
        sampling=Sampling(seed=0, temperature=0.0),
        tools=(WEATHER,),
        tool_choice=choice,
    )


async def measure_grammar(
    directory: Path, model: ModelId, tokens: int, rounds: int, say: Callable[[str], None]
) -> GrammarResult:
    """Raises ModelFault and PeerFault with what went wrong."""
    costs = read_costs(directory, model)
    tokenizer = load_tokenizer(directory)
    speaker = voice(tokenizer, costs.context_max)
    choices = tuple(_choice_cost(speaker, model, name) for name in CHOICES)
    prompt = compose(speaker, asked(model, "auto"))
    held = SlotSpec(Sampling(seed=0, temperature=0.0), tokens, len(prompt.ids), 0, prompt.grammar or "", drafts=False)
    runs: dict[str, list[Run]] = {"held": [], "free": []}
    specs = {"held": held, "free": replace(held, grammar="")}
    say("starting a ring of one shard")
    async with open_ring(directory, costs.layers, 1) as ring:
        for spec in specs.values():
            await ring.ask(prompt.ids, spec)
        for number, order in enumerate(turns(list(specs), rounds), 1):
            say(f"round {number} of {rounds}")
            for name in order:
                runs[name].append(await ring.ask(prompt.ids, specs[name]))
    times = {name: [run.token_s for run in each] for name, each in runs.items()}
    return GrammarResult(speaker.dialect.name, paired_ratio(times["held"], times["free"]), choices)


def _choice_cost(speaker: Voice, model: ModelId, name: str) -> ChoiceCost:
    request = asked(model, CHOICES[name])
    compose(speaker, request)  # the first one of a schema costs more; it is kept
    started = time.perf_counter()
    prompt = compose(speaker, request)
    compose_ms = (time.perf_counter() - started) * 1e3
    masks = _mask_times(speaker.tokenizer, prompt.grammar or "", prompt.opening)
    return ChoiceCost(name, compose_ms, percentile(masks, 50), percentile(masks, 90))


def _mask_times(tokenizer: Tokenizer, grammar: str, opening: tuple[int, ...]) -> list[float]:
    """Microseconds of the masks along random legal walks, begun anew whenever one ends."""
    chance = np.random.default_rng(0)
    mask = allocate_token_bitmask(1, tokenizer.vocab_size)
    times: list[float] = []
    matcher: LLMatcher | None = None
    while len(times) < STEPS:
        if matcher is None or matcher.is_stopped():
            matcher = LLMatcher(tokenizer.grammar_view, grammar, log_level=0)
            matcher.consume_tokens(list(opening))
        started = time.perf_counter()
        fill_next_token_bitmask(matcher, mask, 0)
        times.append((time.perf_counter() - started) * 1e6)
        legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        matcher.consume_token(int(chance.choice(legal)))
    return times
