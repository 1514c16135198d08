"""Text that fits: cells of a terminal, durations and sizes as people read them. Pure."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def cells(text: str) -> int:
    """How many cells of a terminal it takes."""
    return cell_len(text)


def padded(text: str, width: int) -> str:
    """Filled up or cut to so many cells."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def clipped(line: str, width: int) -> str:
    """Cut to so many cells; what could drive a terminal is a blank."""
    printable = "".join(char if char.isprintable() else " " for char in line).rstrip()
    if cell_len(printable) <= width:
        return printable
    return set_cell_size(printable, width - 1) + "…" if width > 1 else set_cell_size(printable, width)


def duration(seconds: float, *, units: int = 2) -> str:
    """The largest units that count, at most so many."""
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    chosen = parts[first : first + units]
    return " ".join(f"{count} {unit}" for count, unit in chosen if count or unit == "s")


def size(count: float) -> str:
    """Bytes in the unit that leaves one to four digits."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
