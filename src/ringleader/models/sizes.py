"""Byte counts as a person reads them."""

from __future__ import annotations


def human_bytes(count: int) -> str:
    """Decimal units, three digits: "92.9 MB", "404 GB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 99.95 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
