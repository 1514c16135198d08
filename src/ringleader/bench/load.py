"""What benchmarks ask for: prompts that share nothing with earlier ones, answers of a set length, many at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ringleader.bench.ring import BenchRing, Run
from ringleader.models.headers import read_costs
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import ModelCosts, ModelId, Sampling, SlotSpec

NEVER = -100.0  # the bias of tokens that would end an answer: all contestants then say equally much


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is measured."""

    directory: Path
    costs: ModelCosts
    tokenizer: Tokenizer

    def prompt(self, tokens: int, seed: int) -> tuple[int, ...]:
        """A prompt of ordinary tokens; prompts of different seeds have no begin in common."""
        chance = random.Random(seed)
        first = self.tokenizer.encode("a b")[0] + seed + 1
        width = min(self.tokenizer.vocab_size, len(self.tokenizer.rust.get_vocab()))
        rest = (chance.randrange(width) for _ in range(2 * tokens))
        plain = [token for token in rest if not self.tokenizer.is_special(token)]
        return (first % width, *plain[: tokens - 1])

    def lasting(self, prompt: Sequence[int], tokens: int) -> SlotSpec:
        """Greedy, exactly so many tokens, none of them guessed: what is measured is what passes take."""
        ends = tuple((token, NEVER) for token in self.tokenizer.eos_ids)
        sampling = Sampling(seed=0, temperature=0.0, logit_bias=ends)
        return SlotSpec(sampling, max_tokens=tokens, prompt_tokens=len(prompt), drafts=False)


def subject(directory: Path, model: ModelId) -> Subject:
    """Read what is needed of the model. Raises ModelFault."""
    return Subject(directory, read_costs(directory, model), load_tokenizer(directory))


async def together(
    ring: BenchRing, about: Subject, streams: int, prompt_tokens: int, tokens: int, seed: int
) -> list[Run]:
    """So many requests at once, each with a prompt of its own."""
    prompts = [about.prompt(prompt_tokens, seed * 1000 + number) for number in range(streams)]
    return list(await asyncio.gather(*(ring.ask(each, about.lasting(each, tokens)) for each in prompts)))


def rate(runs: Sequence[Run]) -> float:
    """Tokens a second while all were answered: from the last first token to the first last one."""
    begin, end = max(run.arrivals[0][0] for run in runs), min(run.arrivals[-1][0] for run in runs)
    if end <= begin:  # they did not run at the same time: all tokens over all the time
        return sum(len(run.tokens) for run in runs) / max(run.wall_s for run in runs)
    return sum(count for run in runs for at, count in run.arrivals if begin < at <= end) / (end - begin)
