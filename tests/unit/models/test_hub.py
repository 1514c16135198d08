"""Whole repositories from a small hub on loopback: complete, cut in the middle, missing, gated, foreign."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringleader.errors import ModelFault, ModelUnsupported, UnknownModel
from ringleader.models.hub import fetch_repository
from ringleader.models.transfer import LEDGER, TRIES
from tests.unit.models.builders import safetensors_bytes
from tests.unit.models.hub_server import FakeHub, serving
from tests.unit.models.recorder import Recorder

BIG = "model-00001-of-00002.safetensors"
WEIGHTS = safetensors_bytes({"a": ("U8", (3_000_000,))})
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "merges.txt": b"#",
    "chat_template.jinja": b"{{ x }}",
    "tokenizer.model": b"\0",
    BIG: WEIGHTS,
    "model-00002-of-00002.safetensors": safetensors_bytes({"b": ("U8", (10,))}),
}
UNWANTED = {
    "README.md": b"#",
    "pytorch_model.bin": b"evil",
    "original.pth": b"evil",
    "consolidated.safetensors": b"twice",
    "onnx/config.json": b"{}",
    "../config.json": b"climbs",
    "run.py": b"evil",
}


def hub(**knobs: object) -> FakeHub:
    return FakeHub("org/name", **{"files": dict(FILES), **knobs})


def fetch(hub: FakeHub, into: Path) -> Recorder:
    recorder = Recorder()
    into.mkdir(exist_ok=True)
    fetch_repository("org/name", into, recorder, endpoint=hub.url, pause_s=0.0)
    return recorder


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != LEDGER}


def test_all_that_serving_needs_comes_and_nothing_else(tmp_path: Path) -> None:
    with serving(hub(files=FILES | UNWANTED)) as server:
        recorder = fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == FILES
    assert not (tmp_path / "config.json").exists()
    total = sum(len(data) for data in FILES.values())
    assert recorder.advances[-1] == (total, total, "bytes")
    assert recorder.stages == ["look up org/name", "fetch org/name"]


def test_a_mirror_that_lists_names_only_serves_as_well(tmp_path: Path) -> None:
    with serving(hub(names_only=True)) as server:
        fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == FILES


def test_a_cut_connection_goes_on_where_it_broke(tmp_path: Path) -> None:
    with serving(hub(cuts={BIG: [2_000_000]})) as server:
        fetch(server, tmp_path / "m")
        ranges = server.gets_of(BIG)
    assert content(tmp_path / "m") == FILES
    assert ranges[0] is None
    assert len(ranges) == 2
    assert 0 < int(str(ranges[1]).removeprefix("bytes=").removesuffix("-")) <= 2_000_000


def test_a_pull_that_was_given_up_goes_on_in_the_next_one(tmp_path: Path) -> None:
    with serving(hub(cuts={BIG: [2_500_000] + [0] * TRIES})) as server:
        with pytest.raises(ModelFault, match=rf"{BIG} was cut off at byte \d+ of {len(WEIGHTS)}.*pull again"):
            fetch(server, tmp_path / "m")
        server.gets.clear()
        fetch(server, tmp_path / "m")
        asked = list(server.gets)
    assert content(tmp_path / "m") == FILES
    resumed = [header for name, header in asked if name == BIG]
    assert len(resumed) == 1
    assert int(str(resumed[0]).removeprefix("bytes=").removesuffix("-")) > 1_000_000


def test_whole_files_are_not_asked_for_again(tmp_path: Path) -> None:
    with serving(hub()) as server:
        fetch(server, tmp_path / "m")
        server.gets.clear()
        (tmp_path / "m" / "merges.txt").unlink()
        (tmp_path / "m" / "tokenizer.json").write_bytes(b"{ }")  # not its size any more
        fetch(server, tmp_path / "m")
        asked = {name for name, _ in server.gets}
    assert asked == {"merges.txt", "tokenizer.json"}
    assert content(tmp_path / "m") == FILES


def test_a_server_without_ranges_begins_again_and_counts_right(tmp_path: Path) -> None:
    with serving(hub(cuts={BIG: [2_000_000]}, ranges=False)) as server:
        recorder = fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == FILES
    total = sum(len(data) for data in FILES.values())
    assert recorder.advances[-1] == (total, total, "bytes")
    assert max(done for done, _, _ in recorder.advances) == total


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    with serving(hub(busy_answers=3)) as server:
        fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == FILES


def test_a_new_version_of_a_file_is_never_glued_to_a_part_of_the_old_one(tmp_path: Path) -> None:
    with serving(hub(cuts={BIG: [2_500_000] + [0] * TRIES})) as server:
        with pytest.raises(ModelFault):
            fetch(server, tmp_path / "m")
        newer = bytes(len(WEIGHTS) - 3_000_000) + os.urandom(3_000_000)
        server.files |= {BIG: newer, "config.json": b'{"model_type": "qwen3"}'}
        fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == server.files


def test_wrong_bytes_are_named_with_both_hashes_and_fetched_afresh(tmp_path: Path) -> None:
    wrong = WEIGHTS[:-1] + b"\1"
    with serving(hub(sends={BIG: wrong})) as server:
        with pytest.raises(ModelFault, match=rf"{BIG} is corrupt: expected sha256 \w{{64}}, found \w{{64}}"):
            fetch(server, tmp_path / "m")
        server.sends.clear()
        fetch(server, tmp_path / "m")
    assert content(tmp_path / "m") == FILES


def test_a_missing_repository_is_an_unknown_model_with_advice(tmp_path: Path) -> None:
    with serving(FakeHub("org/other", {})) as server:
        with pytest.raises(UnknownModel, match=r"no model 'org/name'.*check the spelling.*HF_TOKEN"):
            fetch(server, tmp_path / "m")


def test_a_gated_repository_says_where_to_accept_and_how_to_log_in(tmp_path: Path) -> None:
    with serving(hub(gated=True)) as server:
        with pytest.raises(
            ModelFault, match=rf"org/name is gated: accept its terms at {server.url}/org/name.*HF_TOKEN"
        ):
            fetch(server, tmp_path / "m")


def test_a_repository_without_safetensors_is_refused_by_what_it_has(tmp_path: Path) -> None:
    with serving(FakeHub("org/name", {"config.json": b"{}", "pytorch_model.bin": b""})) as server:
        with pytest.raises(ModelUnsupported, match=r"holds no model\*\.safetensors.*pytorch_model\.bin"):
            fetch(server, tmp_path / "m")


def test_a_hub_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with serving(hub()) as server:
        pass
    with pytest.raises(ModelFault, match=rf"{server.url} does not answer"):
        fetch(server, tmp_path / "m")
