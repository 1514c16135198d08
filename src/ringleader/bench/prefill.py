"""How fast prompts are computed, by real compute: a ring against mlx_lm's own generate, to the first token."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from ringleader.bench.child import Child, open_child
from ringleader.bench.conditions import Conditions
from ringleader.bench.load import subject
from ringleader.bench.ratios import paired_ratio, turns
from ringleader.bench.report import Findings, Line
from ringleader.bench.ring import BenchRing, open_ring
from ringleader.values import ModelId

TOKENS = 2
Player = Child | BenchRing


async def measure_prefill(
    directory: Path,
    model: ModelId,
    under: Conditions,
    shards: int,
    prompt_tokens: int,
    rounds: int,
    say: Callable[[str], None],
) -> Findings:
    """Prompts of so many tokens, by turns. Raises ModelFault and PeerFault with what went wrong."""
    about = subject(directory, model)
    say(f"starting mlx_lm and a ring of {shards}")
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(open_child("ringleader.bench.baseline_child", str(directory)))
        ring = await stack.enter_async_context(open_ring(directory, about.costs.layers, shards, under=under))
        await child.hear()

        async def first_s(player: Player, tokens: int, seed: int) -> float:
            prompt = about.prompt(tokens, seed)
            if isinstance(player, Child):
                return float((await player.ask(prompt=prompt, tokens=TOKENS))["first_s"])
            return (await player.ask(prompt, about.lasting(prompt, TOKENS))).first_s

        players: list[Player] = [child, ring]
        for player in players:
            await first_s(player, 64, 0)
        found: dict[int, list[float]] = {0: [], 1: []}
        for number, order in enumerate(turns([0, 1], rounds), 1):
            say(f"round {number} of {rounds}")
            for place in order:
                found[place].append(first_s_ := await first_s(players[place], prompt_tokens, 2 * number + place))
                assert first_s_ > 0
    mlx_lm, ours = prompt_tokens / median(found[0]), prompt_tokens / median(found[1])
    ratio = paired_ratio(found[0], found[1])
    name = f"{shards}_shard{'s' if shards > 1 else ''}"
    rows = (
        Line(f"mlx_lm, {prompt_tokens} tokens", f"{mlx_lm:.0f} tok/s"),
        Line(f"ring of {shards}", f"{ours:.0f} tok/s"),
        Line("prompt tok/s, ring / mlx_lm", f"{ratio:.3f}"),
    )
    values = {f"ring_of_{name}_vs_mlx_lm": round(ratio, 3), "mlx_lm_tok_s": round(mlx_lm, 1)}
    return Findings(rows, {**values, "ring_tok_s": round(ours, 1), "prompt_tokens": prompt_tokens})
