"""Progress on stderr: a bar where a person watches, a few plain lines where a log does.

Has the shape of `models.reporter.Reporter`; every command that makes someone wait uses it.
"""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from ringleader.models.reporter import Unit
from ringleader.models.sizes import human_bytes

STAGE_WIDTH = 28  # columns of a stage's name: "convert " and a usual model name
LINE_STEPS = 10  # plain lines for one stage, at most


class CommandReporter(Protocol):
    """`Reporter`, with an end: `close` leaves the terminal as it was, also in the middle of a stage."""

    def stage(self, name: str) -> None:
        """See Reporter."""

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """See Reporter."""

    def done(self, note: str) -> None:
        """See Reporter."""

    def close(self) -> None:
        """Stop drawing. May be called twice."""


def open_reporter(stream: TextIO | None = None) -> CommandReporter:
    """A bar when `stream` (default: stderr) is a terminal, plain lines otherwise. The caller closes it."""
    stream = stream or sys.stderr
    return BarReporter(Console(file=stream)) if stream.isatty() else LineReporter(stream)


class BarReporter:
    """One live bar for the stage that runs; each finished stage stays as one line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._name, self._began_s = "", 0.0

    def stage(self, name: str) -> None:
        """Draw an empty bar under what is there."""
        self.close()
        self._name, self._began_s = name, time.monotonic()
        self._progress = Progress(
            TextColumn("  {task.description}"), BarColumn(24), _Amount(), console=self._console, transient=True
        )
        self._progress.add_task(f"{name:<{STAGE_WIDTH}}", total=None, unit="bytes")
        self._progress.start()

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done, total=total or None, unit=unit)

    def done(self, note: str) -> None:
        """Replace the bar by a line."""
        self.close()
        took_s = time.monotonic() - self._began_s
        # No markup and no highlighting: names may hold brackets, and the line must copy as it reads.
        self._console.print(_finished(self._name, note, took_s), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class LineReporter:
    """At most one line for each tenth of a stage."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._name, self._began_s, self._step = "", 0.0, 0

    def stage(self, name: str) -> None:
        """Say what begins."""
        self._name, self._began_s, self._step = name, time.monotonic(), 0
        self._print(f"  {name} ...")

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """Say it when another tenth is full."""
        step = min(LINE_STEPS, done * LINE_STEPS // total) if total else 0
        if self._step < step < LINE_STEPS:  # the last tenth is told by `done`
            self._print(f"  {self._name:<{STAGE_WIDTH}} {step * 100 // LINE_STEPS:3d} %  {_amount(done, total, unit)}")
        self._step = max(self._step, step)

    def done(self, note: str) -> None:
        """Say what came of it."""
        self._print(_finished(self._name, note, time.monotonic() - self._began_s))

    def close(self) -> None:
        """Nothing to put back."""

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _Amount(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_amount(int(task.completed), int(task.total or 0), task.fields["unit"]))


def _amount(done: int, total: int, unit: Unit) -> str:
    if unit == "bytes":
        return f"{human_bytes(done)} of {human_bytes(total)}" if total else human_bytes(done) if done else ""
    return f"{done} of {total} {unit}" if total else f"{done} {unit}"


def _finished(name: str, note: str, took_s: float) -> str:
    return f"  {name:<{STAGE_WIDTH}} {note}  ({took_s:.1f} s)"
