"""Under what conditions a benchmark's shards run: at a pace, pinned to processors, traced."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ringleader.errors import BadRequest
from ringleader.node.supervisor import SHARD_PROGRAM
from ringleader.shard.pace import Pace


@dataclass(frozen=True, slots=True)
class Conditions:
    """`pins` holds the processor of each shard, from the begin again when there are more shards. `trace` is the file
    that the shards' passes are to be merged into. With a pace, each shard counts as on a machine of its own."""

    pace: Pace | None = None
    pins: tuple[int, ...] = ()
    trace: Path | None = None

    def program(self, index: int) -> tuple[str, ...]:
        """The command that starts the ring's shard `index`, before its own arguments."""
        command = list(SHARD_PROGRAM)
        if self.pins:
            command = [
                sys.executable,
                "-m",
                "ringleader.bench.pinned",
                str(self.pins[index % len(self.pins)]),
                *command,
            ]
        if self.pace is not None:
            pace = f"pass_ms={self.pace.pass_s * 1e3:g},prompt_token_ms={self.pace.prompt_token_s * 1e3:g}"
            command += ["--pace", pace]
        if self.trace is not None:
            command += ["--trace", str(self.trace)]
        return tuple(command)

    def machines(self, shards: int) -> tuple[int, ...]:
        """Which shards share a machine; () where their addresses tell."""
        return tuple(range(shards)) if self.pace is not None else ()


AS_IT_IS = Conditions()


def parse_pins(text: str) -> tuple[int, ...]:
    """Read `0,1`: one processor for each shard. Raises BadRequest where that cannot be done."""
    if not text:
        return ()
    if not hasattr(os, "sched_setaffinity"):
        raise BadRequest("--pin: this system cannot tie a process to a processor; only Linux can. Leave it out.")
    try:
        pins = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise BadRequest(f"--pin wants numbers of processors, as in 0,1, not '{text}'") from error
    here = os.sched_getaffinity(0)
    if strange := [pin for pin in pins if pin not in here]:
        shown = ", ".join(map(str, sorted(here)))
        raise BadRequest(f"--pin: there is no processor {strange[0]} for this process; it may use {shown}")
    return pins
