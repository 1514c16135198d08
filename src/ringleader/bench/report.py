"""A benchmark's result for people: what was measured, what is promised, whether it is kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Flat = dict[str, int | float | str | bool]  # one flat JSON object
VERDICTS = {None: "", True: "ok", False: "MISSED"}


@dataclass(frozen=True, slots=True)
class Line:
    """One measured thing. `promise` says what is promised of it; `kept` is None where nothing is."""

    title: str
    value: str
    promise: str = ""
    kept: bool | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What one benchmark found: for people, and for programs."""

    rows: tuple[Line, ...]
    values: Flat

    def lines(self) -> list[Line]:
        """For the table."""
        return list(self.rows)

    def flat(self) -> Flat:
        """For --json."""
        return self.values

    def with_(self, other: Findings) -> Findings:
        """Both."""
        return Findings((*self.rows, *other.rows), {**self.values, **other.values})


def at_most(title: str, value: float, limit: float, shown: str) -> Line:
    """A line with an upper limit; `shown` formats both numbers, as in "{:.3f}"."""
    return Line(title, shown.format(value), f"at most {shown.format(limit)}", value <= limit)


def at_least(title: str, value: float, limit: float, shown: str) -> Line:
    """A line with a lower limit."""
    return Line(title, shown.format(value), f"at least {shown.format(limit)}", value >= limit)


def table(title: str, lines: Sequence[Line]) -> str:
    """The lines below their title, in columns; within 80 columns for the benchmarks of this room."""
    rows = [(line.title, line.value, line.promise, VERDICTS[line.kept]) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    text = [title]
    for what, value, promise, verdict in rows:
        cells = (what.ljust(widths[0]), value.rjust(widths[1]), promise.ljust(widths[2]), verdict)
        text.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(text)
