"""The GGUF reader on whole, cut and hostile files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.models.gguf import read_gguf
from tests.unit.models.builders import F32, gguf_bytes, tiny_gguf, tiny_metadata


def written(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(data)
    return file


def test_metadata_and_tensors_come_back_as_written(tmp_path: Path) -> None:
    meta = {"a": 7, "b": "text", "c": 0.5, "d": True, "e": ["x", "y"], "f": [1, 2, 3]}
    raw = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    read = read_gguf(written(tmp_path, gguf_bytes(meta, [("one", (2, 3), F32, raw), ("two", (3,), F32, raw[:12])])))
    assert read.metadata == meta
    assert [(tensor.name, tensor.shape) for tensor in read.tensors] == [("one", (2, 3)), ("two", (3,))]
    assert [tensor.data.tobytes() for tensor in read.tensors] == [raw, raw[:12]]


def test_a_file_cut_anywhere_is_a_fault_that_names_it(tmp_path: Path) -> None:
    whole = tiny_gguf()[0]
    for length in [0, 3, 4, 10, 23, 24, 60, 500, 5000, len(whole) // 2, len(whole) - 1]:
        with pytest.raises(ModelFault, match=r"model\.gguf"):
            read_gguf(written(tmp_path, whole[:length]))


@pytest.mark.parametrize("at", range(4, 400, 3))
def test_a_flipped_byte_in_the_header_never_crashes_the_reader(tmp_path: Path, at: int) -> None:
    data = bytearray(tiny_gguf()[0])
    data[at] ^= 0xFF
    try:
        read_gguf(written(tmp_path, bytes(data)))
    except (ModelFault, ModelUnsupported) as error:
        assert "model.gguf" in str(error)


def test_huge_counts_are_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    for counts in [(2**60, 0), (0, 2**60)]:
        with pytest.raises(ModelFault, match="entries"):
            read_gguf(written(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, *counts)))


def test_an_unknown_kind_is_refused_by_the_tensor_and_kind(tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=r"'odd' is of kind Q5_K"):
        read_gguf(written(tmp_path, gguf_bytes(tiny_metadata(), [("odd", (1, 32), 13, b"\0" * 22)])))


def test_another_file_format_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match="not a GGUF file"):
        read_gguf(written(tmp_path, b"PK\x03\x04" + b"\0" * 100))
