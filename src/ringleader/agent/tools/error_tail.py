"""Keeps the last that a program writes to its standard error, for the message when it fails."""

from __future__ import annotations

import logging
import os
import threading
from typing import TextIO

from ringleader.agent.threads import in_thread

log = logging.getLogger(__name__)

KEPT_BYTES = 2_000
LAST_WORDS_S = 1.0  # a message without them is better than one that comes late
_READ_BYTES = 4_096


class ErrorTail:
    """`file` is for the program to write to. A thread reads it, so that a program that writes much never waits."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = b""
        self._ended = threading.Event()
        read_end, write_end = os.pipe()
        self.file: TextIO = os.fdopen(write_end, "w", encoding="utf-8")
        threading.Thread(target=self._read, args=(read_end,), name=f"errors of {name}", daemon=True).start()

    async def told(self) -> str:
        """The end of a sentence about a program that has ended, or "" when it wrote nothing.

        Waits for the last of it, within bounds: what the program has started may hold the pipe open.
        """
        self.release()
        await in_thread(self._ended.wait, {"timeout": LAST_WORDS_S})
        text = self._kept.decode("utf-8", errors="replace").strip()
        return f"; it said last: {text}" if text else ""

    def release(self) -> None:
        """Once the program has the file: its own end is then the end of what it says."""
        self.file.close()

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while piece := pipe.read(_READ_BYTES):
                log.debug("%s: %s", self._name, piece.decode("utf-8", errors="replace").rstrip())
                self._kept = (self._kept + piece)[-KEPT_BYTES:]
        self._ended.set()
