"""A reporter that remembers, and one that stops the world at a given place."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ringleader.models.reporter import Unit


@dataclass
class Recorder:
    """Everything that it was told. `began` is set when a stage starts whose name holds `watch`."""

    watch: str = ""
    stages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    advances: list[tuple[int, int, Unit]] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event | None = None  # when set: wait for it at that stage

    def stage(self, name: str) -> None:
        """Remember; perhaps wait."""
        self.stages.append(name)
        if self.watch and self.watch in name:
            self.began.set()
            if self.go_on is not None:
                assert self.go_on.wait(30)

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """Remember."""
        self.advances.append((done, total, unit))

    def done(self, note: str) -> None:
        """Remember."""
        self.notes.append(note)
