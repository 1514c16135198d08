from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ringleader.models.headers import read_costs
from ringleader.models.store import Store
from ringleader.node import inventory
from ringleader.node.inventory import Inventory
from ringleader.node.shelf import Shelf
from ringleader.values import ModelCosts, ModelId
from tests.unit.models.builders import LLAMA_CONFIG, model_directory


def digest(directory: Path) -> str:
    return read_costs(directory, ModelId("x")).digest


def test_models_of_the_store_and_those_given_by_path_are_counted_and_broken_ones_are_not(tmp_path: Path) -> None:
    stored = model_directory(tmp_path / "models" / "tiny")
    (tmp_path / "models" / "broken").mkdir()
    (tmp_path / "models" / ".partial-other").mkdir()
    given = model_directory(tmp_path / "mine", {**LLAMA_CONFIG, "extra": 1})
    shelf = Shelf(Store(tmp_path / "models"), (str(given), str(tmp_path / "nothing")), 100)
    assert Inventory(shelf.directories).digests() == tuple(sorted({digest(stored), digest(given)}))


def test_a_machine_without_a_store_holds_nothing(tmp_path: Path) -> None:
    assert Inventory(Shelf(Store(tmp_path / "models"), (), 100).directories).digests() == ()


def test_what_changes_is_seen_and_what_does_not_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = model_directory(tmp_path / "tiny")
    read: list[Path] = []

    def counted(directory: Path, model: ModelId) -> ModelCosts:
        read.append(directory)
        return read_costs(directory, model)

    monkeypatch.setattr(inventory, "read_costs", counted)
    stock = Inventory(lambda: [directory, directory])
    before = stock.digests()
    assert stock.digests() == before
    assert len(read) == 1
    (directory / "config.json").write_text(json.dumps({**LLAMA_CONFIG, "extra": 1}))
    os.utime(directory / "config.json", ns=(1, 1))  # however coarse the file system's clock
    assert stock.digests() == (digest(directory),) != before


def test_more_than_can_be_told_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "HELD_MAX", 0)
    assert Inventory(lambda: [model_directory(tmp_path / "tiny")]).digests() is None
