"""Keeps the last that a program writes to its standard error, for the message when it fails."""

from __future__ import annotations

import logging
import os
import threading
from typing import TextIO

log = logging.getLogger(__name__)

KEPT_BYTES = 2_000
_READ_BYTES = 4_096


class ErrorTail:
    """`file` is for the program to write to. A thread reads it, so that a program that writes much never waits."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = b""
        read_end, write_end = os.pipe()
        self.file: TextIO = os.fdopen(write_end, "w", encoding="utf-8")
        threading.Thread(target=self._read, args=(read_end,), name=f"errors of {name}", daemon=True).start()

    def told(self) -> str:
        """The end of a sentence, or "" when nothing was written."""
        text = self._kept.decode("utf-8", errors="replace").strip()
        return f"; it said last: {text}" if text else ""

    def close(self) -> None:
        """The thread ends when the program has closed its end, too."""
        self.file.close()

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while piece := pipe.read(_READ_BYTES):
                log.debug("%s: %s", self._name, piece.decode("utf-8", errors="replace").rstrip())
                self._kept = (self._kept + piece)[-KEPT_BYTES:]
