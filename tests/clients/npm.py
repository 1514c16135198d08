"""Where the npm clients are that `install.sh` has installed, and the reason to skip where they are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "build" / "clients"
BIN = ROOT / "node_modules" / ".bin"
NODE = shutil.which("node")
WHY = "needs node and npm's clients: tests/clients/install.sh"


def program(name: str) -> str | None:
    """Where an installed client's program is: ours, or else the machine's."""
    return str(BIN / name) if NODE is not None and (BIN / name).exists() else shutil.which(name)


needs_npm = pytest.mark.skipif(NODE is None or not BIN.is_dir(), reason=WHY)
