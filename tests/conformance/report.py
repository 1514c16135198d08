"""What the conformance tests found, as tables: printed when they end, and kept where the docs can quote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "build" / "conformance"
FORCED = (
    "dialect",
    "families",
    "answers",
    "all calls valid",
    "`length`",
    "calls",
    "tokens each",
    "passes a token",
    "took",
)

Row = Sequence[object]
_tables: dict[str, tuple[Row, list[Row]]] = {}


def add(table: str, head: Row, row: Row) -> None:
    """One more row of `table`."""
    _tables.setdefault(table, (head, []))[1].append(row)


def written() -> list[str]:
    """All tables as Markdown; each is also written to a file of its name."""
    texts = []
    for name, (head, rows) in _tables.items():
        texts.append("\n".join(_line(row) for row in (head, ["---"] * len(head), *rows)))
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        (DIRECTORY / f"{name}.md").write_text(texts[-1] + "\n", encoding="utf-8")
    return texts


def _line(row: Row) -> str:
    return f"| {' | '.join(str(cell) for cell in row)} |"
