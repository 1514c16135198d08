"""Fixtures of the tests that run real shards: the embedded model, and MLX with a fast BLAS on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
if sys.platform == "linux":
    os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # MLX on CPU compiles with a C++ compiler, for seconds
    with contextlib.suppress(OSError):  # not installed: the tests are slower, not wrong
        ctypes.CDLL("libopenblas.so.0", mode=ctypes.RTLD_GLOBAL)
