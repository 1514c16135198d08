"""Models on a hub are measured from their headers: as exactly as from the files, and with few bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringleader.errors import ModelFault, UnknownModel
from ringleader.models.headers import INDEX, read_costs
from ringleader.models.remote import read_remote_costs
from ringleader.values import ModelId
from tests.unit.models.builders import LLAMA_CONFIG, llama_tensors, safetensors_bytes
from tests.unit.models.hub_server import FakeHub, serving

NAME = ModelId("org/name")
TENSORS = llama_tensors(hidden=512, vocabulary=2000)
FIRST = {name: entry for name, entry in TENSORS.items() if "layers.1." not in name}
SECOND = {name: entry for name, entry in TENSORS.items() if "layers.1." in name}
FILES = {
    "config.json": json.dumps({**LLAMA_CONFIG, "hidden_size": 512}).encode(),
    "model-00001-of-00002.safetensors": safetensors_bytes(FIRST),
    "model-00002-of-00002.safetensors": safetensors_bytes(SECOND),
    INDEX: json.dumps(
        {
            "weight_map": {
                **dict.fromkeys(FIRST, "model-00001-of-00002.safetensors"),
                **dict.fromkeys(SECOND, "model-00002-of-00002.safetensors"),
            }
        }
    ).encode(),
    "tokenizer.json": b"{}",
}


def test_the_costs_are_those_that_the_fetched_files_would_have(tmp_path: Path) -> None:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    with serving(FakeHub("org/name", dict(FILES))) as hub:
        found = read_remote_costs("org/name", NAME, endpoint=hub.url)
        asked = {name for name, _ in hub.gets}
    assert found == read_costs(tmp_path, NAME)
    assert "tokenizer.json" not in asked


def test_a_connection_that_breaks_is_tried_again_and_in_the_end_a_fault(tmp_path: Path) -> None:
    file = "model-00002-of-00002.safetensors"
    with serving(FakeHub("org/name", dict(FILES), cuts={file: [4, 4]})) as hub:
        assert read_remote_costs("org/name", NAME, endpoint=hub.url).layers == 2
    with serving(FakeHub("org/name", dict(FILES), cuts={file: [4, 4, 4]})) as hub:
        with pytest.raises(ModelFault, match=f"{file} cannot be read from the hub"):
            read_remote_costs("org/name", NAME, endpoint=hub.url)


def test_a_header_that_is_none_is_a_fault(tmp_path: Path) -> None:
    files = {**FILES, "model-00002-of-00002.safetensors": b"\xff" * 100}
    with serving(FakeHub("org/name", files)) as hub:
        with pytest.raises(ModelFault, match="header"):
            read_remote_costs("org/name", NAME, endpoint=hub.url)


def test_a_repository_that_the_hub_does_not_have_is_unknown() -> None:
    with serving(FakeHub("org/name", dict(FILES))) as hub:
        with pytest.raises(UnknownModel, match="has no model"):
            read_remote_costs("org/other", NAME, endpoint=hub.url)
