"""What many streams at once are worth: rings of one and two shards on this machine, mlx_lm's batches beside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ringleader.bench.child import Child, open_child
from ringleader.bench.conditions import Conditions
from ringleader.bench.load import Subject, rate, subject, together
from ringleader.bench.ratios import paired_ratio, turns
from ringleader.bench.report import Findings, Flat, Line
from ringleader.bench.ring import BenchRing, open_ring
from ringleader.values import ModelId

STREAMS = (1, 8)  # measured in every round; their ratios count
SCALING = (2, 4, 16)  # measured once, for the picture
PROMPT_TOKENS = 24
MLX_LM = "mlx_lm"


@dataclass(slots=True)
class Contestant:
    """Who takes part: mlx_lm's batches (a child) or a ring; its tokens a second by number of streams."""

    name: str
    player: Child | BenchRing
    tok_s: dict[int, list[float]] = field(default_factory=dict)

    async def play(self, about: Subject, streams: int, tokens: int, seed: int) -> None:
        if isinstance(self.player, Child):
            prompts = [about.prompt(PROMPT_TOKENS, seed * 1000 + number) for number in range(streams)]
            found = float((await self.player.ask(prompts=prompts, tokens=tokens))["tok_s"])
        else:
            found = rate(await together(self.player, about, streams, PROMPT_TOKENS, tokens, seed))
        self.tok_s.setdefault(streams, []).append(found)


async def measure_concurrency(
    directory: Path, model: ModelId, under: Conditions, tokens: int, rounds: int, say: Callable[[str], None]
) -> Findings:
    """One stream and eight, by turns. Raises ModelFault and PeerFault with what went wrong."""
    about = subject(directory, model)
    say("starting mlx_lm, a ring of one shard and a ring of two")
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(open_child("ringleader.bench.baseline_child", str(directory)))
        rings = [
            await stack.enter_async_context(open_ring(directory, about.costs.layers, count, under=under))
            for count in (1, 2)
        ]
        await child.hear()
        players = [Contestant(MLX_LM, child), Contestant("one shard", rings[0]), Contestant("two shards", rings[1])]
        for player in players:
            await player.play(about, STREAMS[-1], 8, 0)
            player.tok_s.clear()
        for number, order in enumerate(turns(players, rounds), 1):
            for player in order:
                say(f"round {number} of {rounds}, {player.name}")
                for streams in STREAMS:
                    await player.play(about, streams, tokens, number)
        for player in players:
            say(f"scaling, {player.name}")
            for streams in SCALING:
                await player.play(about, streams, tokens, rounds + 1)
    return _findings(players)


def _findings(players: list[Contestant]) -> Findings:
    mlx_lm, one, two = players
    few, many = STREAMS
    eight_vs_one = paired_ratio(two.tok_s[many], two.tok_s[few])
    two_vs_one = paired_ratio(two.tok_s[many], one.tok_s[many])
    vs_mlx_lm = paired_ratio(one.tok_s[many], mlx_lm.tok_s[many])
    values: Flat = {
        "eight_vs_one": round(eight_vs_one, 3),
        "two_local_vs_one": round(two_vs_one, 3),
        "one_shard_eight_vs_mlx_lm": round(vs_mlx_lm, 3),
    }
    rows = [
        Line(f"two shards: {many} streams against {few}, tok/s", f"{eight_vs_one:.2f}"),
        Line(f"{many} streams: two shards here against one", f"{two_vs_one:.3f}"),
        Line(f"{many} streams: one shard against mlx_lm's batch", f"{vs_mlx_lm:.3f}"),
    ]
    for player in players:
        by_streams = {streams: median(found) for streams, found in sorted(player.tok_s.items())}
        name = player.name.replace(" ", "_")
        values |= {f"{name}_{streams}_tok_s": round(found, 2) for streams, found in by_streams.items()}
        shown = "  ".join(f"{streams}: {found:.1f}" for streams, found in by_streams.items())
        rows.append(Line(f"{player.name}, tok/s by streams", shown))
    return Findings(tuple(rows), values)
