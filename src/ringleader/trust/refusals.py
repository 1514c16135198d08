"""Says once a minute, not a thousand times, that somebody was not let in: a port scan must not fill the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

AGAIN_S = 60.0
CAUSES_MAX = 256  # told apart; whoever makes up more is told of in one line

log = logging.getLogger("ringleader.trust")


class Refusals:
    """What was refused lately. `now` is a monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic, say: Callable[[str], None] = log.warning) -> None:
        self._now = now
        self._say = say
        self._said: dict[str, tuple[float, int]] = {}  # cause: when it was said, how many were not said since

    def note(self, cause: str, count: int = 1) -> None:
        """Somebody was refused for `cause`, which says who and why; `count` times."""
        now = self._now()
        if cause not in self._said and len(self._said) >= CAUSES_MAX:
            self._said = {key: each for key, each in self._said.items() if now - each[0] < AGAIN_S}
            if len(self._said) >= CAUSES_MAX:
                cause = "many others"
        since, unsaid = self._said.get(cause, (float("-inf"), 0))
        if now - since < AGAIN_S:
            self._said[cause] = (since, unsaid + count)
            return
        self._said[cause] = (now, 0)
        times = unsaid + count
        self._say(f"refused {cause}" + (f" ({times} times)" if times > 1 else ""))
