"""What this machine is and how fast its rings are: measured, never decided upon."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ringleader.net.interfaces import local_interfaces, reached_at

RATE_WINDOW_S = 10.0
RATE_SPAN_MIN_S = 0.5  # a rate over less is noise
LOOK_EVERY_S = 0.5
WORKS_SHARE = 0.1  # of one processor; a shard that waits uses a hundredth, one that decodes on a GPU still some tenths
PROCESSOR_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal", "cpu-thermal", "acpitz")
PLAUSIBLE_C = (1.0, 130.0)  # sensors that are not wired tell 0, -128 or 255


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


def temperature_c() -> float | None:
    """The hottest of the processor's sensors, in degrees Celsius; None where the system tells none.

    macOS tells temperatures to root only, so it is None there.
    """
    read = getattr(psutil, "sensors_temperatures", None)
    if read is None:
        return None
    try:
        sensors = read()
    except (OSError, ValueError):  # a driver that is just being unloaded, a file with words in it
        return None
    names = [name for name in PROCESSOR_SENSORS if name in sensors] or list(sensors)
    low, high = PLAUSIBLE_C
    told = [row.current for name in names for row in sensors[name] if row.current and low <= row.current <= high]
    return float(max(told)) if told else None


def addresses(host: str = "0.0.0.0") -> tuple[str, ...]:
    """Where a node that listens at `host` is reached: numeric, IPv4 first on each interface, link-local with scope."""
    found: dict[str, None] = {}
    for interface in reached_at(host, local_interfaces()):
        for each in interface.addresses:
            scope = f"%{interface.name}" if each.version == 6 and each.ip.is_link_local else ""
            found[f"{each.ip}{scope}"] = None
    return tuple(found)


def processor_s(pid: int) -> float | None:
    """The processor time that a process has used; None when it is gone."""
    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(used.user + used.system)


class Work:
    """Whether processes of this machine compute: by the processor time that they used since the last look."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        used_s: Callable[[int], float | None] = processor_s,
    ) -> None:
        self._clock = clock
        self._used_s = used_s
        self._at = clock()
        self._last: dict[int, float] = {}
        self._works = False

    def look(self, pids: Iterable[int]) -> bool:
        """One that was not looked at before counts as working. Within LOOK_EVERY_S the last answer stands."""
        pids = set(pids)
        passed = self._clock() - self._at
        if passed < LOOK_EVERY_S and pids <= self._last.keys():
            return self._works and bool(pids)
        now = {pid: used for pid in pids if (used := self._used_s(pid)) is not None}
        self._works = any(
            pid not in self._last or used - self._last[pid] > WORKS_SHARE * passed for pid, used in now.items()
        )
        self._last, self._at = now, self._clock()
        return self._works


@dataclass(slots=True)
class RingMeter:
    """Counts of one model's ring since this node started, its present rate, and the last one while it was busy."""

    requests: int = 0
    tokens: int = 0
    passes: int = 0
    prompt_tokens: int = 0  # of those requests that ended
    cached_tokens: int = 0  # of these, how many a kept prefix had already
    kept_tokens: int = 0  # room that kept prefixes took when the ring last told
    last_tokens_per_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _recent_tokens: int = 0  # their sum: this is asked at every token

    def count(self, tokens: int, passes: int) -> None:
        """These tokens came out of the ring just now, after so many more passes of their request."""
        now = self.clock()
        self.tokens += tokens
        self.passes += passes
        self._recent.append((now, tokens))
        self._recent_tokens += tokens
        self._forget(now)
        if now - self._recent[0][0] >= RATE_SPAN_MIN_S:
            self.last_tokens_per_s = self.tokens_per_s

    def ended(self, prompt_tokens: int, cached_tokens: int) -> None:
        """A request came to its end."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - RATE_WINDOW_S:
            self._recent_tokens -= self._recent.popleft()[1]

    @property
    def tokens_per_s(self) -> float:
        """Over the last RATE_WINDOW_S, or since the first token in it."""
        now = self.clock()
        self._forget(now)
        if not self._recent:
            return 0.0
        span = max(now - self._recent[0][0], RATE_SPAN_MIN_S)
        return self._recent_tokens / span

    @property
    def passes_per_token(self) -> float | None:
        return self.passes / self.tokens if self.tokens else None
