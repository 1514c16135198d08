"""What aiohttp logs of clients that do not speak HTTP: a line a minute instead of all that they sent, each time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from aiohttp.http_exceptions import HttpProcessingError

AGAIN_S = 60.0


class OnceAMinute(logging.Filter):
    """Lets a malformed request's record through once a minute, without its content; others as they are."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._said_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if not record.exc_info or not isinstance(record.exc_info[1], HttpProcessingError):
            return True
        if self._now() - self._said_s < AGAIN_S:
            return False
        self._said_s = self._now()
        record.msg, record.args = "refused a request that is not HTTP as it should be (said once a minute)", ()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        return True


log = logging.getLogger("ringleader.api.http")
log.addFilter(OnceAMinute())
