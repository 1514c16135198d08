"""Activations as they travel between shards: raw little-endian bytes, as they are or coded in fewer.

"bf16" halves what a shard of fp32 sends; "int8" sends a byte a value, with a scale and an offset for each group of
GROUP (MLX's own affine quantisation). Both change what the next shard computes a little: the operator's choice. Who
receives restores the type that the sender had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from ringleader.values import Coding

GROUP, NARROW_GROUP = 64, 32  # values that share a scale; the second where the width is no multiple of the first
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class FrameRefused(Exception):
    """The frame does not belong here; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A tensor of `dtype` ("f32", "f16", "bf16") in `shape`, [rows, tokens, hidden]; `data` is coded."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]
    coding: Coding = "same"


def can_code(coding: Coding, hidden_size: int) -> bool:
    """Whether activations of this width can be coded so."""
    return coding != "int8" or hidden_size % NARROW_GROUP == 0


def pack(out: Any, coding: Coding) -> Activation:
    """Evaluate `out`, [rows, tokens, hidden], to bytes. What has 16 bits already is not coded as bf16."""
    if out.dtype not in NAMES:
        out = out.astype(mx.float32)
    name, shape = NAMES[out.dtype], tuple(out.shape)
    if coding == "int8":
        # Of fp32 whatever came: scales of 16 bits would lose more than the bytes do.
        parts = mx.quantize(out.astype(mx.float32), group_size=_group(shape[-1]), bits=8)
        mx.eval(parts)
        return Activation(b"".join(_bytes(part) for part in parts), name, shape, coding)
    if coding == "bf16" and out.dtype == mx.float32:
        out = out.astype(mx.bfloat16)
    else:
        coding = "same"
    plain = _integers(out)
    mx.eval(plain)
    return Activation(_bytes(plain), name, shape, coding)


def unpacked(received: Activation, expected: tuple[int, ...]) -> Any:
    """The values as numpy sees them, in the sender's type: 16-bit floats as integers.

    Raises FrameRefused when the shape is another, or the bytes do not fill it.
    """
    if received.shape != expected:
        raise FrameRefused(f"activation of shape {received.shape}, expected {expected}")
    size = _coded_bytes(received)
    if len(received.data) != size:
        raise FrameRefused(f"activation of {len(received.data)} bytes does not fill its shape {received.shape}")
    if received.coding == "int8":
        return _numpy(_dequantized(received))
    if received.coding == "bf16":
        coded = mx.array(np.frombuffer(received.data, np.uint16).reshape(received.shape)).view(mx.bfloat16)
        return _numpy(coded.astype(DTYPES[received.dtype]))
    kind = np.uint16 if DTYPES[received.dtype].size == 2 else np.float32
    return np.frombuffer(received.data, dtype=kind).reshape(received.shape)


def _coded_bytes(received: Activation) -> int:
    values, size = int(np.prod(received.shape)), int(DTYPES[received.dtype].size)
    if received.coding == "bf16":
        return 2 * values
    if received.coding == "int8":
        if received.shape[-1] % NARROW_GROUP:
            raise FrameRefused(f"activations {received.shape[-1]} wide are not sent as int8")
        return values + 2 * mx.float32.size * (values // _group(received.shape[-1]))
    return size * values


def _dequantized(received: Activation) -> Any:
    *rows, width = received.shape
    group = _group(width)
    values = int(np.prod(received.shape))
    packed = np.frombuffer(received.data, np.uint32, values // 4).reshape(*rows, width // 4)
    halves = np.frombuffer(received.data, np.float32, offset=values).reshape(2, *rows, width // group)
    scales, biases = (mx.array(half) for half in halves)
    restored = mx.dequantize(mx.array(packed), scales, biases, group_size=group, bits=8)
    return restored.astype(DTYPES[received.dtype])


def _group(width: int) -> int:
    return GROUP if width % GROUP == 0 else NARROW_GROUP


def _bytes(array: Any) -> bytes:
    return bytes(memoryview(array))


def _integers(array: Any) -> Any:
    """numpy and Python know no bf16: 16 bits are shown as integers."""
    return array.view(mx.uint16) if array.dtype.size == 2 else array


def _numpy(array: Any) -> Any:
    plain = _integers(array)
    mx.eval(plain)
    return np.array(plain, copy=False)
