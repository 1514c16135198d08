"""Headers of safetensors files: exact when right, a fault that names the file when wrong, never a crash."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ringleader.errors import ModelFault, OurFault
from ringleader.models.safetensors import TensorSpec, read_header, write_safetensors


def written(tmp_path: Path, header: object, data_bytes: int = 0) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * data_bytes)
    return file


def entry(dtype: object = "F32", shape: object = (2, 3), offsets: object = (0, 24)) -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_what_we_write_another_library_reads_and_so_do_we(tmp_path: Path) -> None:
    tensors = {
        "h": np.arange(3, dtype="<f2"),
        "w": np.arange(4, dtype="<u4").reshape(2, 2),
        "f": np.arange(6, dtype="<f4").reshape(2, 3),
    }
    specs = {"h": TensorSpec("F16", (3,)), "w": TensorSpec("U32", (2, 2)), "f": TensorSpec("F32", (2, 3))}
    write_safetensors(tmp_path / "model.safetensors", specs, tensors.items())
    read = load_file(tmp_path / "model.safetensors")
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read[name], tensor)
    header = read_header(tmp_path / "model.safetensors")
    assert {name: found.bytes for name, found in header.tensors.items()} == {"h": 6, "w": 16, "f": 24}


def test_a_promised_tensor_that_never_comes_is_our_fault(tmp_path: Path) -> None:
    with pytest.raises(OurFault, match="promised"):
        write_safetensors(tmp_path / "m", {"a": TensorSpec("F32", (1,))}, [])


def test_data_shorter_than_declared_is_named_as_truncated(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match=r"model\.safetensors is truncated: tensor 'a' ends at 24, the data has 23"):
        read_header(written(tmp_path, entry(), 23))


def test_a_file_shorter_than_its_header_is_named_as_truncated(tmp_path: Path) -> None:
    file = written(tmp_path, entry(), 24)
    whole = file.read_bytes()
    for length in (0, 7, 8, 20):
        file.write_bytes(whole[:length])
        with pytest.raises(ModelFault, match=r"model\.safetensors is truncated"):
            read_header(file)


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        {"a": 1},
        {"a": {}},
        entry(dtype="F1024"),
        entry(dtype=["F32"]),
        entry(shape=[2, -3]),
        entry(shape=[2.0, 3]),
        entry(shape=[True, 6]),
        entry(shape="23"),
        entry(shape=[10**30, 10**30]),
        entry(shape=[2] * 1000),
        entry(offsets=[0]),
        entry(offsets=[24, 0]),
        entry(offsets=[-24, 0]),
        entry(offsets=[0, 20]),
        entry(offsets=[0, 10**40]),
        entry(offsets=None),
    ],
)
def test_a_hostile_header_is_a_fault_that_names_the_file(tmp_path: Path, header: object) -> None:
    with pytest.raises(ModelFault, match=r"model\.safetensors"):
        read_header(written(tmp_path, header, 24))


def test_a_header_that_claims_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(ModelFault, match="header of 4611686018427387904 bytes"):
        read_header(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match=r"gone\.safetensors cannot be read"):
        read_header(tmp_path / "gone.safetensors")
