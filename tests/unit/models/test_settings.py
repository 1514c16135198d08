from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringleader.errors import BadRequest, ModelFault, UnknownModel
from ringleader.models.settings import SETTINGS, ModelSettings, read_settings, set_dialect
from ringleader.models.store import Store
from tests.unit.models.builders import model_directory


def test_a_model_without_the_file_has_no_settings(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == ModelSettings()


def test_what_is_set_is_read_and_what_is_set_to_nothing_is_gone(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "org--name")
    store = Store(tmp_path)
    assert set_dialect(store, "org/name", "mistral") == directory / SETTINGS
    assert json.loads((directory / SETTINGS).read_text()) == {"dialect": "mistral"}
    assert read_settings(directory) == ModelSettings("mistral")
    set_dialect(store, "org/name", "glm")
    assert read_settings(directory) == ModelSettings("glm")
    set_dialect(store, "org/name", None)
    assert read_settings(directory) == ModelSettings()
    assert {file.name for file in directory.iterdir()} == {"config.json", "model.safetensors"}
    set_dialect(store, "org/name", None)


def test_a_directory_outside_the_store_is_written_only_when_it_is_given_by_its_path(tmp_path: Path) -> None:
    outside = model_directory(tmp_path / "mine")
    store = Store(tmp_path / "models")
    with pytest.raises(UnknownModel):
        set_dialect(store, "mine", "glm")
    assert set_dialect(store, str(outside), "glm") == outside / SETTINGS
    store.root.mkdir()
    (store.root / "linked").symlink_to(outside)
    with pytest.raises(BadRequest, match="is a symbolic link") as caught:
        set_dialect(store, "linked", "mistral")
    assert str(outside) in str(caught.value)
    assert read_settings(outside) == ModelSettings("glm")


def test_only_a_model_directory_is_written_to(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match="is not a model directory"):
        set_dialect(Store(tmp_path), str(tmp_path), "glm")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"dialect": ', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"dialect": 3}', "not a name"),
        ('{"dialect": ""}', "not a name"),
        ('{"dialet": "glm"}', "sets dialet, which is not known"),
        (" " * 200_000, "is larger than"),
    ],
)
def test_a_broken_file_is_named_and_never_ignored(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / SETTINGS).write_text(text)
    with pytest.raises(ModelFault, match=said) as caught:
        read_settings(tmp_path)
    assert str(tmp_path / SETTINGS) in str(caught.value)


def test_null_leaves_the_dialect_to_detection(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text('{"dialect": null}')
    assert read_settings(tmp_path) == ModelSettings()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "org--name")
    (directory / SETTINGS).mkdir()  # nothing can be renamed over it, whoever runs the test
    with pytest.raises(ModelFault, match=f"cannot write {directory / SETTINGS}"):
        set_dialect(Store(tmp_path), "org/name", "glm")
    assert {file.name for file in directory.iterdir()} == {"config.json", "model.safetensors", SETTINGS}
