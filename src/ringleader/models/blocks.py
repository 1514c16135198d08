"""GGUF's blocks of quantised weights, as numbers or as MLX's packed layout. Pure numpy; never imports mlx.

A block holds 32 neighbours of one row: half-precision scale `d` (and minimum `m`), then the integers `q`.
Source: the block structs of ggml (ggml-common.h); MLX's affine layout as documented for mx.quantize.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
BlockKind = Literal["F32", "F16", "Q4_0", "Q4_1", "Q8_0"]

GROUP = 32  # weights in a block, and MLX's group size


@dataclass(frozen=True, slots=True)
class KindShape:
    """Bytes and weights of one block; `bits` 0 means that the kind is not quantised."""

    weights: int
    bytes: int
    bits: int


KINDS: dict[BlockKind, KindShape] = {
    "F32": KindShape(1, 4, 0),
    "F16": KindShape(1, 2, 0),
    "Q4_0": KindShape(GROUP, 18, 4),
    "Q4_1": KindShape(GROUP, 20, 4),
    "Q8_0": KindShape(GROUP, 34, 8),
}


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in MLX's affine layout: w = q * scale + bias for each group of 32 in a row.

    `weight` is uint32 (rows, columns * bits / 32), lowest bits first; `scales` and `biases` are float16
    (rows, columns / 32). The conversion is exact: the same numbers, written differently.
    """

    weight: npt.NDArray[np.uint32]
    scales: npt.NDArray[np.float16]
    biases: npt.NDArray[np.float16]


def dense(kind: BlockKind, rows: Bytes) -> npt.NDArray[np.float32]:
    """Numbers of `rows` (uint8, one row of blocks each) as float32 (rows, columns)."""
    if kind == "F32":
        return rows.view("<f4").astype(np.float32)
    if kind == "F16":
        return rows.view("<f2").astype(np.float32)
    q, scale, bias = _affine(kind, rows)
    numbers = q.astype(np.float32) * scale.astype(np.float32)[..., None] + bias.astype(np.float32)[..., None]
    return numbers.reshape(len(rows), -1)


def packed(kind: BlockKind, rows: Bytes) -> Packed:
    """`rows` of a quantised kind in MLX's layout."""
    q, scale, bias = _affine(kind, rows)
    if KINDS[kind].bits == 4:
        q = q[..., 0::2] | (q[..., 1::2] << np.uint8(4))
    weight = np.ascontiguousarray(q).reshape(len(rows), -1).view("<u4")
    return Packed(weight, scale, bias)


def _affine(kind: BlockKind, rows: Bytes) -> tuple[Bytes, npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    """Unsigned integers (rows, blocks, 32) in the order of the columns, scales and biases (rows, blocks)."""
    blocks = rows.reshape(len(rows), -1, KINDS[kind].bytes)
    scale = _halves(blocks, 0)
    if kind == "Q8_0":
        # Signed to unsigned is a shift by 128; 128 and 8 are powers of two, so the biases are exact.
        return blocks[..., 2:] ^ np.uint8(0x80), scale, scale * np.float16(-128)
    nibbles = blocks[..., 2:] if kind == "Q4_0" else blocks[..., 4:]
    # ggml keeps columns 0-15 in the low nibbles and 16-31 in the high ones; MLX wants neighbours together.
    q = np.concatenate([nibbles & np.uint8(15), nibbles >> np.uint8(4)], axis=-1)
    return q, scale, scale * np.float16(-8) if kind == "Q4_0" else _halves(blocks, 2)


def _halves(blocks: npt.NDArray[Any], at: int) -> npt.NDArray[np.float16]:
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]
