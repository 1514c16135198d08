"""Keeps results: one JSON a run with machine, commit and load, and a page of tables made of all that were kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ringleader.bench.report import Flat
from ringleader.bench.targets import of
from ringleader.node.telemetry import chip, memory_total_bytes

RESULTS = "results"  # the folder of the JSON files
PAGE = "results.md"
PACKAGES = ("mlx", "mlx-lm", "grpcio", "aiohttp", "llguidance")
RUNS_SHOWN_MAX = 6  # of each command, the newest


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where and when something was measured. `load` is the machine's load average, one minute, before and after."""

    at: str
    machine: str
    system: str
    commit: str
    load: tuple[float, float]
    packages: Mapping[str, str]


def circumstances(load_before: float) -> Circumstances:
    """Those of a run that has just ended."""
    return Circumstances(
        at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        machine=f"{chip()}, {os.cpu_count()} cores, {memory_total_bytes() / 2**30:.0f} GB",
        system=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        commit=_commit(),
        load=(load_before, load_now()),
        packages={name: found for name in PACKAGES if (found := _version(name))},
    )


def load_now() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def keep(folder: Path, command: str, values: Flat, where: Circumstances) -> Path:
    """Write one run below `folder` and the page anew. Raises OSError."""
    results = folder / RESULTS
    results.mkdir(parents=True, exist_ok=True)
    stamp = where.at.replace(":", "").replace(" ", "-")
    file = results / f"{stamp}-{command}-{where.commit}.json"
    body = {
        "command": command,
        "at": where.at,
        "commit": where.commit,
        "machine": where.machine,
        "system": where.system,
        "load_average": list(where.load),
        "packages": dict(where.packages),
        "values": values,
    }
    file.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(page([_read(each) for each in sorted(results.glob("*.json"))]), encoding="utf-8")
    return file


def page(runs: list[dict[str, Any]]) -> str:
    """The tables: for each command its newest runs, each measure that has a target in a row."""
    text = [
        "# Results that were kept",
        "",
        "Made by `ringleader bench ... --keep docs/benchmarks`; all values of each run are in [results/](results/).",
        "How they are measured: [README.md](README.md). Numbers in bold miss their target.",
    ]
    for command in dict.fromkeys(run["command"] for run in runs):
        mine = [run for run in runs if run["command"] == command][-RUNS_SHOWN_MAX:]
        text += ["", f"## {command}", "", *_table(command, mine)]
    return "\n".join(text) + "\n"


def _table(command: str, runs: list[dict[str, Any]]) -> list[str]:
    head = ["measure [key]", "target", *(f"{run['at']}, {run['commit']}, load {_load(run)}" for run in runs)]
    rows = [
        [f"{target.what} [{target.key}]", target.wanted, *(_shown(target.key, target.met, run) for run in runs)]
        for target in of(command)
    ]
    if not rows:  # nothing is promised: all values
        keys = dict.fromkeys(key for run in runs for key in run["values"])
        rows = [[key, "", *(str(run["values"].get(key, "")) for run in runs)] for key in keys]
    machines = dict.fromkeys(run["machine"] for run in runs)
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows), "", f"Machine: {'; '.join(machines)}."]


def _shown(key: str, met: Any, run: dict[str, Any]) -> str:
    value = run["values"].get(key)
    if not isinstance(value, int | float):
        return ""
    return f"{value:g}" if met(value) else f"**{value:g}**"


def _load(run: dict[str, Any]) -> str:
    return " to ".join(f"{load:.1f}" for load in run["load_average"])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _read(file: Path) -> dict[str, Any]:
    found = json.loads(file.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Of the checkout that this code is in; "none" outside of one."""
    here = Path(__file__).resolve().parent
    asked = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return found.stdout.strip() if found.returncode == 0 else "none"
