"""A shard that takes the time of another machine: it really sleeps up to it, around real protocol, caches and sampling.

For measuring what the ring makes of its stages where they cannot compute at once. Nothing else may use it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ringleader.errors import BadRequest

PASS_MS_MAX = 10_000.0
LATE_S = 0.0003  # by so much a sleep may end too late: the rest is waited for awake
FORM = "pass_ms=20,prompt_token_ms=0.5"


@dataclass(frozen=True, slots=True)
class Pace:
    """What one stage takes: `pass_s` to read its weights, or `prompt_token_s` for each token if that is more.

    So answers that share a pass cost what one costs, and a long chunk of a prompt is paid by the token, as where
    reading the weights and computing happen at once. Padding counts as tokens: it is computed.
    """

    pass_s: float
    prompt_token_s: float = 0.0

    def seconds(self, tokens: int) -> float:
        """The least time of a frame over so many tokens in one stage."""
        return max(self.pass_s, tokens * self.prompt_token_s)

    def wait(self, begun: float, tokens: int) -> None:
        """Sleep until a frame that was begun at `begun` (time.perf_counter) has taken its time."""
        end = begun + self.seconds(tokens)
        if (left := end - time.perf_counter() - LATE_S) > 0:
            time.sleep(left)
        while time.perf_counter() < end:
            time.sleep(0)


def parse_pace(text: str) -> Pace:
    """Read `pass_ms=20,prompt_token_ms=0.5`. Raises BadRequest saying what is wrong with it."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in ("pass_ms", "prompt_token_ms") or name in found:
            raise BadRequest(f"--pace has '{part}', which is none of pass_ms and prompt_token_ms, once each: {FORM}")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise BadRequest(f"--pace: '{number}' is no number of milliseconds: {FORM}") from error
        if not 0 <= found[name] <= PASS_MS_MAX:
            raise BadRequest(f"--pace: {name} is 0 to {PASS_MS_MAX:g} milliseconds, not {number}")
    if "pass_ms" not in found:
        raise BadRequest(f"--pace must say pass_ms: {FORM}")
    return Pace(found["pass_ms"] / 1e3, found.get("prompt_token_ms", 0.0) / 1e3)
