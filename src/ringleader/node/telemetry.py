"""What this machine is and how fast its rings are: measured, never decided upon."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RATE_WINDOW_S = 10.0


def chip() -> str:
    """The processor's name as people know it ("Apple M3 Ultra"), or the architecture where it is not told."""
    if sys.platform == "darwin":
        told = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        if told.returncode == 0 and told.stdout.strip():
            return told.stdout.strip()
    elif (file := Path("/proc/cpuinfo")).exists():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def memory_total_bytes() -> int:
    """Physical memory."""
    return int(psutil.virtual_memory().total)


def memory_free_bytes() -> int:
    """What can be taken now without swapping."""
    return int(psutil.virtual_memory().available)


@dataclass(slots=True)
class RingMeter:
    """Counts of one model's ring since this node started, and its present rate."""

    requests: int = 0
    tokens: int = 0
    passes: int = 0
    clock: Callable[[], float] = time.monotonic
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def count(self, tokens: int, passes: int) -> None:
        """These tokens came out of the ring just now, after so many more passes of their request."""
        now = self.clock()
        self.tokens += tokens
        self.passes += passes
        self._recent.append((now, tokens))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - RATE_WINDOW_S:
            self._recent.popleft()

    @property
    def tokens_per_s(self) -> float:
        """Over the last RATE_WINDOW_S, or since the first token in it."""
        now = self.clock()
        self._forget(now)
        if not self._recent:
            return 0.0
        span = max(now - self._recent[0][0], 0.5)
        return sum(tokens for _, tokens in self._recent) / span

    @property
    def passes_per_token(self) -> float | None:
        return self.passes / self.tokens if self.tokens else None
