"""`ringleader bench all`: every measure that has a target, one command after another, each in a process of its own.

So that what one leaves in memory is not the next one's load, and one that fails costs no other its figure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ringleader.bench.report import Flat, Line
from ringleader.cli.bench_runs import resolve, say

COMMAND_DEADLINE_S = 600.0
# The commands, and how many rounds fit into a quarter of an hour for all, on two cores.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("api", "--runs", "5"),
    ("decode", "--runs", "9"),
    ("prefill", "--runs", "2"),
    ("concurrency", "--runs", "3"),
    ("forced-call", "--runs", "5"),
    ("lookup", "--runs", "3"),
    ("cache", "--runs", "2"),
    ("rhythm", "--runs", "2"),
    ("mixed",),
    ("hop",),
)
NEVER_PINNED = {"api", "hop"}


def measure_all(model: str, pin: str, keep: Path | None, as_json: bool) -> None:
    """Run all, print the overview: measure, target, found, met."""
    from ringleader.bench.report import table
    from ringleader.bench.targets import overview

    resolve(model)  # what is wrong with it is said once
    found: dict[str, Flat] = {}
    failed: list[Line] = []
    begun = time.monotonic()
    for command, *options in COMMANDS:
        say(f"{command} ({time.monotonic() - begun:.0f} s so far)")
        shared = [] if command == "hop" else ["--model", model]
        shared += ["--pin", pin] if pin and command not in NEVER_PINNED else []
        shared += ["--keep", str(keep)] if keep is not None else []
        values, error = _measured([command, *options, *shared])
        if error:
            failed.append(Line(command, "failed", error, False))
        else:
            found[command] = values
    if as_json:
        print(json.dumps({f"{command}.{key}": value for command, each in found.items() for key, value in each.items()}))
        return
    took = time.monotonic() - begun
    print(table(f"all measures: {model}, {took / 60:.1f} minutes", [*overview(found), *failed]))


def _measured(arguments: Sequence[str]) -> tuple[Flat, str]:
    """One command's values, or why there are none."""
    command = [sys.executable, "-m", "ringleader", "bench", *arguments, "--json"]
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=COMMAND_DEADLINE_S)
    except subprocess.TimeoutExpired:
        return {}, f"it took longer than {COMMAND_DEADLINE_S:.0f} s"
    if ended.returncode != 0:
        return {}, f"exit code {ended.returncode}; what it said stands above"
    values = json.loads(ended.stdout.splitlines()[-1])
    assert isinstance(values, dict)
    return values, ""
