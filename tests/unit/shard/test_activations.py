"""Activations to bytes and back: exact as they are, close when coded, refused when their bytes do not fill them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.activations import DTYPES, Activation, FrameRefused, can_code, pack, unpacked
from ringleader.values import Coding

SHAPE = (2, 3, 576)


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    """As residual streams are: small, with a few values that are a thousand times the others."""
    mx.random.seed(5)
    array = mx.random.normal(shape)
    array[..., 7] = array[..., 7] * 1000
    return array.astype(DTYPES[dtype])


def restored(sent: Activation) -> Any:
    plain = mx.array(unpacked(sent, sent.shape))
    return plain.view(DTYPES[sent.dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_they_are_nothing_is_lost(dtype: str) -> None:
    array = values(dtype)
    sent = pack(array, "same")
    assert (sent.dtype, sent.shape, sent.coding) == (dtype, SHAPE, "same")
    assert len(sent.data) == array.nbytes
    assert mx.array_equal(restored(sent), array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("coding", "bytes_a_value", "error"), [("bf16", 2.0, 2**-8), ("int8", 1.125, 2**-7)])
def test_coded_they_are_smaller_and_close(dtype: str, coding: Coding, bytes_a_value: float, error: float) -> None:
    array = values(dtype).astype(mx.float32)
    sent = pack(array.astype(DTYPES[dtype]), coding)
    assert sent.dtype == dtype
    assert len(sent.data) <= array.size * bytes_a_value
    off = restored(sent).astype(mx.float32) - array
    groups = (*SHAPE[:2], SHAPE[2] // 64, 64)
    largest = mx.abs(array).reshape(groups).max(axis=-1, keepdims=True)
    assert (mx.abs(off).reshape(groups) <= error * largest).all(), "an error is that of its group's largest value"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_what_has_sixteen_bits_is_not_coded_as_bf16(dtype: str) -> None:
    assert pack(values(dtype), "bf16").coding == "same"


def test_a_width_that_is_no_multiple_of_the_groups_takes_narrow_ones_or_none() -> None:
    array = values("f32", (1, 2, 96))
    assert mx.abs(restored(pack(array, "int8")) - array)[..., 64:].max() < 0.05
    assert can_code("int8", 96)
    assert not can_code("int8", 80)
    assert can_code("bf16", 80)


@pytest.mark.parametrize("coding", ["same", "bf16", "int8"])
@pytest.mark.parametrize("change", [-1, 1])
def test_bytes_that_do_not_fill_the_shape_are_refused(coding: Coding, change: int) -> None:
    sent = pack(values("f32"), coding)
    data = sent.data[:-1] if change < 0 else sent.data + b"\0"
    with pytest.raises(FrameRefused, match="does not fill"):
        unpacked(replace(sent, data=data), SHAPE)
    with pytest.raises(FrameRefused, match="expected"):
        unpacked(sent, (2, 3, 575))


def test_a_width_that_cannot_be_coded_is_refused_when_it_comes() -> None:
    with pytest.raises(FrameRefused, match="80 wide"):
        unpacked(Activation(bytes(100), "f32", (1, 1, 80), "int8"), (1, 1, 80))


def test_what_is_unpacked_can_be_written_into_a_prepared_step() -> None:
    target = mx.array(np.zeros(SHAPE, np.float32))
    mx.eval(target)
    np.array(target, copy=False)[...] = unpacked(pack(values("f32"), "int8"), SHAPE)
    assert mx.abs(target - values("f32"))[..., 64:].max() < 0.1
