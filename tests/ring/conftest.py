"""Fixtures of the tests that run real shards: the embedded model, and MLX with a fast BLAS on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ringleader.errors import RingleaderError
from ringleader.models.store import Store

EMBEDDED = "smollm2-135m"
PULL_DEADLINE_S = 280.0

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # as net/ does; tests import grpc before it
if sys.platform == "linux":
    os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # MLX on CPU compiles with a C++ compiler, for seconds
    with contextlib.suppress(OSError):  # not installed: the tests are slower, not wrong
        ctypes.CDLL("libopenblas.so.0", mode=ctypes.RTLD_GLOBAL)


@pytest.fixture(scope="session")
def smollm() -> Path:
    """The directory of the embedded model, pulled into the store (RINGLEADER_HOME or the default) when missing."""
    store = Store()
    try:
        return store.resolve(EMBEDDED)
    except RingleaderError:
        command = [sys.executable, "-m", "ringleader", "models", "pull", EMBEDDED]
        subprocess.run(command, check=True, timeout=PULL_DEADLINE_S)
        return store.resolve(EMBEDDED)
