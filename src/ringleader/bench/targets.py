"""What is to be reached, measure by measure: one table for the tables of results. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.bench.report import Flat, Line


@dataclass(frozen=True, slots=True)
class Target:
    """`key` of `command`'s JSON is to be at least, or at most, `bound`. `paced`: at a pace, not by real compute."""

    command: str
    key: str
    bound: float
    at_least: bool
    what: str
    paced: bool = False

    @property
    def wanted(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}"

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


FRAME_EXTRA_BYTES = 200  # of a decode frame, above one activation row

TARGETS = (
    Target("decode", "one_shard_vs_mlx_lm", 1.0, True, "1 shard, 1 stream: tok/s against mlx_lm generate"),
    Target("decode", "two_shards_vs_one", 1.05, False, "1 stream: time a token, 2 shards against 1"),
    Target("decode", "paced_four_overhead", 1.04, False, "1 stream, 4 stages: time a token over the stages'", True),
    Target("decode", "frame_bytes_over_row", FRAME_EXTRA_BYTES, False, "decode frame: bytes above one activation row"),
    Target("concurrency", "eight_vs_one", 4.0, True, "2 shards: tok/s of 8 streams against 1"),
    Target("concurrency", "two_local_vs_one", 0.95, True, "8 streams: tok/s, 2 shards here against 1"),
    Target("concurrency", "paced_two_of_ideal", 0.92, True, "8 streams on 2 stages, of the ideal", True),
    Target("concurrency", "paced_four_of_ideal", 0.90, True, "8 streams on 4 stages, of the ideal", True),
    Target("prefill", "paced_two_of_ideal", 0.88, True, "a 2,000-token prompt over 2 stages, of the ideal", True),
    Target("rhythm", "p99_gap_vs_median", 3.0, False, "gaps while a 4,000-token prompt comes: p99 against median"),
    Target(
        "cache", "second_turn_vs_first", 0.12, False, "second turn after 2,000 tokens: first token against first turn"
    ),
    Target("forced-call", "passes_per_token", 0.55, False, "forced call, 3 text fields: passes an output token"),
    Target("forced-call", "speedup", 1.6, True, "the same: wall time without forced followers over with"),
    Target("lookup", "speedup", 1.5, True, "code edit, greedy: tok/s with drafts against without"),
    Target("api", "tokens_per_s", 8000.0, True, "API and parser alone, 64 streams: tokens a second"),
)


def of(command: str) -> tuple[Target, ...]:
    """What is to be reached by one command."""
    return tuple(target for target in TARGETS if target.command == command)


def judged(command: str, values: Flat) -> tuple[Line, ...]:
    """A line for each of the command's targets that was measured."""
    lines = []
    for target in of(command):
        value = values.get(target.key)
        if isinstance(value, int | float):
            lines.append(Line(f"{target.what} [{target.key}]", f"{value:g}", target.wanted, target.met(value)))
    return tuple(lines)


def overview(found: Mapping[str, Flat]) -> tuple[Line, ...]:
    """A line for every target, measured or not; `found` has the values of each command."""
    lines: list[Line] = []
    for target in TARGETS:
        value = found.get(target.command, {}).get(target.key)
        measured = isinstance(value, int | float)
        title = f"{target.command}: {target.what} [{target.key}]"
        shown = f"{value:g}" if isinstance(value, int | float) else "not measured"
        lines.append(
            Line(title, shown, target.wanted, target.met(float(value)) if measured and value is not None else None)
        )
    return tuple(lines)
