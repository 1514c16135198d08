"""How fast tokens follow each other: mlx_lm's own generate, a ring of one and a ring of two, in turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ringleader.bench.child import Child, open_child
from ringleader.bench.conditions import AS_IT_IS, Conditions
from ringleader.bench.ratios import paired_ratio, shares, turns
from ringleader.bench.report import Flat, Line, at_most
from ringleader.bench.ring import BenchRing, open_ring
from ringleader.bench.targets import FRAME_EXTRA_BYTES
from ringleader.errors import ModelFault
from ringleader.models.headers import read_costs, read_headers
from ringleader.models.safetensors import DTYPE_BITS
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ModelCosts, ModelId, Sampling, SlotSpec

PROMPT = "Once upon a time, in a small harbour town, there lived an old woman who mended clocks. Every morning she"
LONG_PROMPT_TOKENS = 1024
FRAME_TOKENS = 4  # decode steps of the runs that only look at frame sizes
WARM_UP_TOKENS = 16
STARTS_MAX = 3  # each process lies in memory as luck has it, which is worth some percent: start them all anew
MLX_LM, ONE, TWO = "mlx_lm", "one shard", "two shards"


@dataclass(slots=True)
class Contestant:
    """Who takes part: mlx_lm (a child) or a ring. `token_s` grows by one value a round."""

    name: str
    player: Child | BenchRing
    token_s: list[float] = field(default_factory=list)

    async def play(self, prompt: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        """Decode up to `tokens` tokens, note the time for each, and return them."""
        if isinstance(self.player, Child):
            heard = await self.player.ask(prompt=prompt, tokens=tokens)
            self.token_s.append(float(heard["token_s"]))
            return tuple(heard["tokens"])
        run = await self.player.ask(prompt, greedy(prompt, tokens))
        self.token_s.append(run.token_s)
        return run.tokens


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """What was measured; times are seconds a token, medians over the rounds."""

    tokens: int
    same_tokens: bool  # all three gave the same answer, as they must
    mlx_lm_token_s: float
    one_shard_token_s: float
    two_shards_token_s: float
    one_shard_vs_mlx_lm: float
    two_shards_vs_one: float
    frame_bytes_short: int
    frame_bytes_long: int
    row_bytes: int  # of one activation

    def lines(self) -> list[Line]:
        """For the table."""
        limit = self.row_bytes + FRAME_EXTRA_BYTES
        return [
            Line("mlx_lm's own generate", f"{1 / self.mlx_lm_token_s:.1f} tok/s"),
            Line("ring of one shard", f"{1 / self.one_shard_token_s:.1f} tok/s"),
            Line("ring of two shards", f"{1 / self.two_shards_token_s:.1f} tok/s"),
            at_most("decode frame, short context", self.frame_bytes_short, limit, "{} bytes"),
            at_most("decode frame, long context", self.frame_bytes_long, limit, "{} bytes"),
            Line("same tokens from all three", "yes" if self.same_tokens else "NO", "", self.same_tokens),
        ]

    def flat(self) -> Flat:
        """For --json."""
        return {
            "one_shard_vs_mlx_lm": round(self.one_shard_vs_mlx_lm, 4),
            "two_shards_vs_one": round(self.two_shards_vs_one, 4),
            "decode_frame_bytes": max(self.frame_bytes_short, self.frame_bytes_long),
            "decode_frame_bytes_limit": self.row_bytes + FRAME_EXTRA_BYTES,
            "frame_bytes_over_row": max(self.frame_bytes_short, self.frame_bytes_long) - self.row_bytes,
            "decode_frame_bytes_short_context": self.frame_bytes_short,
            "decode_frame_bytes_long_context": self.frame_bytes_long,
            "mlx_lm_tok_s": round(1 / self.mlx_lm_token_s, 2),
            "one_shard_tok_s": round(1 / self.one_shard_token_s, 2),
            "two_shards_tok_s": round(1 / self.two_shards_token_s, 2),
            "tokens": self.tokens,
            "same_tokens": self.same_tokens,
        }


def greedy(prompt: tuple[int, ...], tokens: int) -> SlotSpec:
    """The likeliest token each time, no grammar, nothing guessed: mlx_lm does not guess either."""
    return SlotSpec(Sampling(seed=0, temperature=0.0), max_tokens=tokens, prompt_tokens=len(prompt), drafts=False)


async def measure_decode(
    directory: Path,
    model: ModelId,
    tokens: int,
    rounds: int,
    say: Callable[[str], None],
    under: Conditions = AS_IT_IS,
) -> DecodeResult:
    """Run the whole benchmark. Raises ModelFault and PeerFault with what went wrong."""
    costs = read_costs(directory, model)
    prompt = tuple(load_tokenizer(directory).encode(PROMPT))
    series = []
    for share in shares(rounds, STARTS_MAX):
        say("starting mlx_lm, a ring of one shard and a ring of two")
        series.append(await _series(directory, costs, prompt, tokens, share, say, under))
    mlx_lm, one, two = ([s for each in series for s in each.token_s[name]] for name in (MLX_LM, ONE, TWO))
    answers = set().union(*(each.answers for each in series))
    return DecodeResult(
        tokens=max(len(answer) for answer in answers),
        same_tokens=_same(answers),
        mlx_lm_token_s=median(mlx_lm),
        one_shard_token_s=median(one),
        two_shards_token_s=median(two),
        one_shard_vs_mlx_lm=paired_ratio(mlx_lm, one),
        two_shards_vs_one=paired_ratio(two, one),
        frame_bytes_short=series[-1].frame_bytes_short,
        frame_bytes_long=series[-1].frame_bytes_long,
        row_bytes=costs.hidden_size * element_bytes(directory),
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """The rounds of one start of all processes."""

    token_s: dict[str, list[float]]
    answers: set[tuple[int, ...]]
    frame_bytes_short: int
    frame_bytes_long: int


async def _series(
    directory: Path,
    costs: ModelCosts,
    prompt: tuple[int, ...],
    tokens: int,
    rounds: int,
    say: Callable[[str], None],
    under: Conditions,
) -> _Series:
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(open_child("ringleader.bench.baseline_child", str(directory)))
        one = await stack.enter_async_context(open_ring(directory, costs.layers, 1, under=under))
        two = await stack.enter_async_context(open_ring(directory, costs.layers, 2, under=under))
        await child.hear()
        short, long = await _frame_bytes(two, prompt, min(LONG_PROMPT_TOKENS, costs.context_max - FRAME_TOKENS))
        contestants = [Contestant(MLX_LM, child), Contestant(ONE, one), Contestant(TWO, two)]
        for contestant in contestants:
            await contestant.play(prompt, WARM_UP_TOKENS)
            contestant.token_s.clear()
        answers = set()
        for number, order in enumerate(turns(contestants, rounds), 1):
            say(f"round {number} of {rounds}")
            for contestant in order:
                answers.add(await contestant.play(prompt, tokens))
    return _Series({each.name: each.token_s for each in contestants}, answers, short, long)


async def _frame_bytes(ring: BenchRing, prompt: tuple[int, ...], long_tokens: int) -> tuple[int, int]:
    """Size of a decode step's frame after a short and after a long prompt."""
    long = (prompt * (long_tokens // len(prompt) + 1))[:long_tokens]
    sizes = [(await ring.ask(each, greedy(each, FRAME_TOKENS))).frame_bytes for each in (prompt, long)]
    return sizes[0], sizes[1]


def _same(answers: set[tuple[int, ...]]) -> bool:
    """Whether the answers agree as far as the shortest goes: mlx_lm's generate does not stop at an end token."""
    shortest = min(len(answer) for answer in answers)
    return len({answer[:shortest] for answer in answers}) == 1


def element_bytes(directory: Path) -> int:
    """Bytes of one element of this model's activations: that of its norms. Raises ModelFault without norms."""
    for header in read_headers(directory).values():
        for name, entry in header.tensors.items():
            if "norm" in name:
                return DTYPE_BITS[entry.dtype] // 8
    raise ModelFault(f"the model in {directory} has no norms: its activations' type is not known")
