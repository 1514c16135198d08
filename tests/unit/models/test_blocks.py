"""GGUF blocks against numbers made apart from the code, and against MLX's own reading of the packed form."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from ringleader.models.blocks import KINDS, BlockKind, dense, packed
from tests.unit.models.builders import q4_0, q4_1, q8_0

Encode = Callable[[int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
QUANTISED: list[tuple[BlockKind, Encode]] = [("Q4_0", q4_0), ("Q4_1", q4_1), ("Q8_0", q8_0)]


@pytest.mark.parametrize(("kind", "encode"), QUANTISED)
def test_dense_gives_the_numbers_that_were_encoded(kind: BlockKind, encode: Encode) -> None:
    raw, numbers = encode(6, 96, np.random.default_rng(1))
    np.testing.assert_allclose(dense(kind, raw), numbers, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("kind", "encode"), QUANTISED)
def test_mlx_reads_the_packed_form_as_the_same_numbers(kind: BlockKind, encode: Encode) -> None:
    raw, numbers = encode(6, 96, np.random.default_rng(2))
    matrix = packed(kind, raw)
    read = mx.dequantize(
        mx.array(matrix.weight),
        mx.array(matrix.scales).astype(mx.float32),
        mx.array(matrix.biases).astype(mx.float32),
        group_size=32,
        bits=KINDS[kind].bits,
    )
    np.testing.assert_allclose(np.array(read), numbers, rtol=1e-5, atol=1e-6)


def test_plain_floats_come_through_as_they_are() -> None:
    numbers = np.random.default_rng(3).normal(size=(3, 5))
    for kind, dtype in (("F32", "<f4"), ("F16", "<f2")):
        raw = numbers.astype(dtype).view(np.uint8)
        np.testing.assert_array_equal(dense(kind, raw), numbers.astype(dtype).astype(np.float32))
