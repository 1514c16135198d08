"""The fixture fleets, by the names of their files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from ringleader.cluster.fleet import fleet
from ringleader.cluster.messages import NodeProfile

FOLDER = Path(__file__).parent / "fleets"
FLEETS = sorted(file.stem for file in FOLDER.glob("*.toml"))


def load(name: str) -> list[NodeProfile]:
    return fleet(tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")))
