"""Which models' files this machine has, by digest: what other nodes need to know to place them here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ringleader.errors import RingleaderError
from ringleader.models.headers import read_costs
from ringleader.values import ModelId

HELD_MAX = 64  # they travel in every beat; whoever has more tells nothing, and is taken to have all

Stamp = tuple[int, int]


class Inventory:
    """`directories` are those that may hold models. Headers are read again only where something changed."""

    def __init__(self, directories: Callable[[], Iterable[Path]]) -> None:
        self._directories = directories
        self._known: dict[Path, tuple[Stamp, str]] = {}

    def digests(self) -> tuple[str, ...] | None:
        """Of all models here, sorted; None when there are too many to tell. Reads the disk: not on the loop."""
        known: dict[Path, tuple[Stamp, str]] = {}
        for directory in dict.fromkeys(self._directories()):
            try:
                stamp = (directory.stat().st_mtime_ns, (directory / "config.json").stat().st_mtime_ns)
                before = self._known.get(directory)
                if before is not None and before[0] == stamp:
                    known[directory] = before
                else:
                    known[directory] = (stamp, read_costs(directory, ModelId(directory.name)).digest)
            except (RingleaderError, OSError):
                continue  # no model, or one that is broken; `models list` says why
        self._known = known
        digests = sorted({digest for _, digest in known.values()})
        return tuple(digests) if len(digests) <= HELD_MAX else None
