"""MLX without its compiler, and the tables at the end of a full run."""

from __future__ import annotations

import os

import pytest

from tests.conformance import report
from tests.conformance.matrix import FULL

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # MLX on CPU compiles with a C++ compiler, for seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what a full run found."""
    for table in report.written() if FULL else []:
        terminalreporter.write_line(f"\n{table}")
