"""The safetensors file format: headers read with every number distrusted, files written tensor by tensor.

Format: 8 bytes little-endian length, that many bytes of JSON (name -> dtype, shape, data_offsets), the data.
Never reads tensor data, so a header costs the same for a model of 100 MB and of 400 GB.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np
import numpy.typing as npt

from ringleader.errors import ModelFault, OurFault

HEADER_BYTES_MAX = 100_000_000  # the format's own limit; a larger one is an attack or a foreign file
LENGTH_BYTES = 8
DIMENSIONS_MAX = 16
COUNT_MAX = 2**63  # sizes and offsets are at most this in the format; larger ones only cost time to multiply

# Bits of one element; sub-byte formats are padded to whole bytes by the tensor.
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "U32": np.dtype("<u4")}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as its header declares it; `start` and `stop` are byte offsets into the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Header:
    """A file's whole header; `raw` are its JSON bytes as stored, for digests."""

    raw: bytes
    tensors: Mapping[str, TensorEntry]


def read_header(file: Path) -> Header:
    """Read and check the header of `file`.

    Raises:
        ModelFault: the file is missing, truncated, or its header is not one; names the file.
    """
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            raw = _header_bytes(file, stream, size)
    except OSError as error:
        raise ModelFault(f"{file} cannot be read: {error.strerror or error}") from error
    try:
        decoded = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"{file}: its header is not JSON ({type(error).__name__}); fetch the file again") from error
    if not isinstance(decoded, dict):
        raise ModelFault(f"{file}: its header is not a JSON object; fetch the file again")
    data_bytes = size - LENGTH_BYTES - len(raw)
    tensors = {
        name: _entry(file, name, declared, data_bytes) for name, declared in decoded.items() if name != "__metadata__"
    }
    return Header(raw, tensors)


def _header_bytes(file: Path, stream: BinaryIO, size: int) -> bytes:
    start = stream.read(LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES:
        raise ModelFault(f"{file} is truncated: {size} bytes do not hold a safetensors header; fetch it again")
    if length > HEADER_BYTES_MAX:
        raise ModelFault(
            f"{file} declares a header of {length} bytes (at most {HEADER_BYTES_MAX}): not a safetensors file"
        )
    if LENGTH_BYTES + length > size:
        raise ModelFault(
            f"{file} is truncated: its header needs {LENGTH_BYTES + length} bytes, the file has {size}; fetch it again"
        )
    return stream.read(length)


def _entry(file: Path, name: str, declared: Any, data_bytes: int) -> TensorEntry:
    where = f"{file}: tensor {name[:120]!r}"
    if not isinstance(declared, dict):
        raise ModelFault(f"{where} is not described by an object")
    dtype, shape, offsets = declared.get("dtype"), declared.get("shape"), declared.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise ModelFault(f"{where} has the unknown dtype {str(dtype)[:40]!r}")
    if not _counts(shape) or len(shape) > DIMENSIONS_MAX or not _counts(offsets) or len(offsets) != 2:
        raise ModelFault(f"{where} has a shape or data_offsets that are not lists of whole numbers")
    start, stop = offsets
    if stop > data_bytes:
        raise ModelFault(f"{file} is truncated: tensor {name[:120]!r} ends at {stop}, the data has {data_bytes} bytes")
    if stop < start or stop - start != (prod(shape) * DTYPE_BITS[dtype] + 7) // 8:
        raise ModelFault(f"{where}: {stop - start} bytes do not fit dtype {dtype} and shape {tuple(shape)}"[:400])
    return TensorEntry(dtype, tuple(shape), start, stop)


def _counts(found: Any) -> TypeGuard[list[int]]:
    return isinstance(found, list) and all(type(n) is int and 0 <= n < COUNT_MAX for n in found)


# ---------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a tensor will be, known before its data: dtype as in the header ("F32"), shape row-major."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return prod(self.shape) * DTYPE_BITS[self.dtype] // 8


def write_safetensors(
    file: Path, specs: Mapping[str, TensorSpec], produced: Iterable[tuple[str, npt.NDArray[Any]]]
) -> None:
    """Write `file` and flush it to the disk, holding one tensor at a time in memory.

    `produced` yields each tensor of `specs` once, in any order. Raises OSError as the disk does.
    """
    entries, header = _layout(specs)
    missing = set(specs)
    with file.open("wb") as stream:
        stream.write(len(header).to_bytes(LENGTH_BYTES, "little"))
        stream.write(header)
        for name, tensor in produced:
            spec = specs[name]
            if tensor.shape != spec.shape or tensor.dtype != NUMPY_DTYPES[spec.dtype]:
                raise OurFault(f"tensor {name} came as {tensor.dtype}{tensor.shape}, promised was {spec}")
            stream.seek(LENGTH_BYTES + len(header) + entries[name].start)
            stream.write(np.ascontiguousarray(tensor).data)
            missing.remove(name)
        if missing:
            raise OurFault(f"tensors {sorted(missing)[:3]} were promised and not written")
        stream.flush()
        os.fsync(stream.fileno())


def _layout(specs: Mapping[str, TensorSpec]) -> tuple[dict[str, TensorEntry], bytes]:
    # Wide elements first keeps every tensor aligned to its element, which memory-mapping readers want.
    order = sorted(specs, key=lambda name: (-DTYPE_BITS[specs[name].dtype], name))
    entries: dict[str, TensorEntry] = {}
    end = 0
    for name in order:
        spec = specs[name]
        entries[name] = TensorEntry(spec.dtype, spec.shape, end, end + spec.bytes)
        end += spec.bytes
    described: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    for name, entry in entries.items():
        described[name] = {
            "dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [entry.start, entry.stop]
        }  # fmt: skip
    header = json.dumps(described, separators=(",", ":")).encode()
    return entries, header + b" " * (-len(header) % 8)
