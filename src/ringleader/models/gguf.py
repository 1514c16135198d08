"""The GGUF container: metadata, tensor directory and mapped data of a file, every count distrusted.

Little-endian versions 2 and 3. Never converts anything; `blocks` knows the weights, `convert` the model.
Source: the GGUF specification (docs/gguf.md of the ggml repository).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import cast, get_args

import numpy as np

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.models.blocks import KINDS, BlockKind, Bytes
from ringleader.values import Json

MAGIC = b"GGUF"
VERSIONS = (2, 3)
COUNT_MAX = 1_000_000  # tensors or metadata entries; real files have hundreds
DIMENSIONS_MAX = 4

# ggml's number of each tensor kind that we read; others are named in the error where ggml names them.
KIND_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 30: "BF16", 39: "MXFP4",
}  # fmt: skip
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of the file. `shape` is row-major (ggml's own order reversed); `data` its rows of blocks, mapped."""

    name: str
    shape: tuple[int, ...]
    kind: BlockKind
    data: Bytes


@dataclass(frozen=True, slots=True)
class Gguf:
    """A whole file. Metadata values are plain Python; arrays are lists."""

    metadata: Mapping[str, Json]
    tensors: tuple[GgufTensor, ...]


def read_gguf(file: Path) -> Gguf:
    """Map `file`.

    Raises:
        ModelFault: it is missing, truncated or not GGUF.
        ModelUnsupported: it holds a kind of tensor that we do not read; names the tensor.
    """
    try:
        with file.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped: ValueError
        raise ModelFault(f"{file} cannot be read: {error}") from error
    cursor = _Cursor(file, mapped)
    try:
        return _read(cursor)
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ModelFault(f"{file} is broken near byte {cursor.at}: {error}") from error


def _read(cursor: _Cursor) -> Gguf:
    if cursor.take(4) != MAGIC:
        raise ModelFault(f"{cursor.file} is not a GGUF file")
    version = int(cursor.scalar("<I"))
    if version not in VERSIONS:
        raise ModelUnsupported(f"{cursor.file} is GGUF version {version}; versions 2 and 3 are read")
    tensor_count, entry_count = cursor.count("<Q"), cursor.count("<Q")
    metadata = {}
    for _ in range(entry_count):
        key = cursor.text()
        metadata[key] = cursor.value(int(cursor.scalar("<I")))
    declared = [cursor.tensor() for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment <= 0:
        raise ModelFault(f"{cursor.file}: general.alignment is {alignment!r}")
    base = -(-cursor.at // alignment) * alignment
    return Gguf(metadata, tuple(_map_tensor(cursor, base, *each) for each in declared))


def _map_tensor(cursor: _Cursor, base: int, name: str, shape: tuple[int, ...], number: int, offset: int) -> GgufTensor:
    kind = KIND_NAMES.get(number, f"number {number}")
    if kind not in get_args(BlockKind):
        readable = ", ".join(get_args(BlockKind))
        raise ModelUnsupported(f"{cursor.file}: tensor {name!r} is of kind {kind}; read are {readable}")
    block = KINDS[cast(BlockKind, kind)]
    if shape[-1] % block.weights:
        raise ModelFault(f"{cursor.file}: tensor {name!r} has rows of {shape[-1]}, not whole blocks of {block.weights}")
    rows, row_bytes = prod(shape[:-1]), shape[-1] // block.weights * block.bytes
    if base + offset + rows * row_bytes > len(cursor.mapped):
        raise ModelFault(f"{cursor.file} is truncated: tensor {name!r} ends after the file does; fetch it again")
    data = np.frombuffer(cursor.mapped, np.uint8, rows * row_bytes, base + offset).reshape(rows, row_bytes)
    return GgufTensor(name, shape, cast(BlockKind, kind), data)


class _Cursor:
    """A place in the mapped file that only moves forward and never past the end."""

    def __init__(self, file: Path, mapped: mmap.mmap) -> None:
        self.file, self.mapped, self.at = file, mapped, 0

    def take(self, length: int) -> bytes:
        if length > len(self.mapped) - self.at:
            raise ModelFault(f"{self.file} is truncated: it ends inside its header; fetch it again")
        taken = self.mapped[self.at : self.at + length]
        self.at += length
        return taken

    def scalar(self, layout: str) -> int | float | bool:
        found: int | float | bool = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return found

    def count(self, layout: str) -> int:
        found = int(self.scalar(layout))
        if found > COUNT_MAX:
            raise ModelFault(f"{self.file} declares {found} entries (at most {COUNT_MAX}): not a model")
        return found

    def text(self) -> str:
        return self.take(int(self.scalar("<Q"))).decode("utf-8")

    def value(self, kind: int) -> Json:
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self._array()
        if kind not in SCALARS:
            raise ModelFault(f"{self.file}: metadata of unknown type {kind} at byte {self.at}")
        return self.scalar(SCALARS[kind])

    def _array(self) -> list[Json]:
        kind, length = int(self.scalar("<I")), int(self.scalar("<Q"))
        if kind == STRING:
            if length > (len(self.mapped) - self.at) // 8:  # each string costs at least its length field
                raise ModelFault(f"{self.file}: an array of {length} strings is longer than the file")
            return [self.text() for _ in range(length)]
        if kind not in SCALARS:
            raise ModelUnsupported(f"{self.file}: an array of metadata type {kind} (nested arrays are not read)")
        layout = np.dtype(SCALARS[kind])
        listed: list[Json] = np.frombuffer(self.take(length * layout.itemsize), layout).tolist()
        return listed

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.text()
        dimensions = int(self.scalar("<I"))
        if not 1 <= dimensions <= DIMENSIONS_MAX:
            raise ModelFault(f"{self.file}: tensor {name!r} has {dimensions} dimensions")
        shape = tuple(int(self.scalar("<Q")) for _ in range(dimensions))[::-1]
        return name, shape, int(self.scalar("<I")), int(self.scalar("<Q"))
