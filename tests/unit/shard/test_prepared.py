"""A step that was prepared must not be told from one that was not, and one that was undone never have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.batches import Batch
from ringleader.shard.loader import load_slice
from ringleader.shard.prepared import Prepared, can_prepare
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.values import LayerRange
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

HIDDEN = 64
RANGES = [LayerRange(0, LAYERS), LayerRange(0, 2), LayerRange(2, 4), LayerRange(4, LAYERS)]


@pytest.fixture(scope="module", params=["float32", "float16", "bfloat16"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dtype = getattr(mx, request.param)
    return make_tiny_model("llama", tmp_path_factory.mktemp(request.param), dtype=dtype)


def part_of(directory: Path, layers: LayerRange) -> Slice:
    return load_slice(directory, layers, LAYERS, lambda _: None)


def rows(part: Slice, count: int, seed: int = 0) -> Any:
    """An activation as the engine has it from the wire (16-bit floats as integers), or None for the head."""
    if part.head:
        return None
    values = mx.random.normal((1, count, HIDDEN), key=mx.random.key(seed)).astype(part.activation_dtype)
    return np.array(values.view(mx.uint16) if part.activation_dtype.size == 2 else values)


def plainly(part: Slice, caches: list[Any], tokens: list[int], plain: Any) -> np.ndarray[Any, Any]:
    received = None if plain is None else mx.array(plain)
    if received is not None and part.activation_dtype.size == 2:
        received = received.view(part.activation_dtype)
    return values_of(part.forward(mx.array([tokens], dtype=mx.uint32), caches, received))


def values_of(out: Any) -> np.ndarray[Any, Any]:
    return np.array(out.astype(mx.float32))


@pytest.mark.parametrize("layers", RANGES, ids=str)
def test_prepared_steps_give_what_plain_steps_give(directory: Path, layers: LayerRange) -> None:
    part = part_of(directory, layers)
    plain, ahead = part.make_caches(), part.make_caches()
    for caches in (plain, ahead):
        plainly(part, caches, [5, 9, 2], rows(part, 3))
    for step, token in enumerate([7, 300, 7, 11]):
        row = rows(part, 1, seed=step + 1)
        prepared = Prepared(part, ahead)
        assert np.array_equal(values_of(prepared.filled([token], row)), plainly(part, plain, [token], row)), step


@pytest.mark.parametrize("layers", RANGES, ids=str)
@pytest.mark.parametrize("length", [3, 255, 256], ids=lambda n: f"after {n}")
def test_an_undone_step_leaves_no_trace_also_where_the_cache_would_have_grown(
    directory: Path, layers: LayerRange, length: int
) -> None:
    part = part_of(directory, layers)
    touched, untouched = part.make_caches(), part.make_caches()
    prompt, more = [1 + i % 300 for i in range(length)], [7, 8, 9]
    for caches in (touched, untouched):
        plainly(part, caches, prompt, rows(part, length))
    Prepared(part, touched).undo()
    assert [cache.offset for cache in touched] == [cache.offset for cache in untouched]
    for mine, other in zip(cache_arrays(touched), cache_arrays(untouched), strict=True):
        assert mx.array_equal(mine, other), "also behind its end, where the undone step would be computed in vain"
    row = rows(part, 3, seed=1)
    assert np.array_equal(plainly(part, touched, more, row), plainly(part, untouched, more, row))


@pytest.mark.parametrize("length", [3, 255, 256], ids=lambda n: f"after {n}")
def test_a_step_that_was_started_is_the_one_that_comes_or_leaves_no_trace(directory: Path, length: int) -> None:
    part = part_of(directory, RANGES[0])
    touched, untouched = part.make_caches(), part.make_caches()
    for caches in (touched, untouched):
        plainly(part, caches, [1 + i % 300 for i in range(length)], None)
    started = Prepared(part, touched)
    started.start([7])
    assert np.array_equal(values_of(started.filled([7], None)), plainly(part, untouched, [7], None))
    wrong = Prepared(part, touched)
    wrong.start([8])
    assert wrong.filled([9], None) is None
    undone = Prepared(part, touched)
    undone.start([8])
    undone.undo()
    assert [cache.offset for cache in touched] == [cache.offset for cache in untouched]
    assert np.array_equal(plainly(part, touched, [9, 10], None), plainly(part, untouched, [9, 10], None))


def test_a_started_step_of_a_batch_leaves_no_trace(directory: Path) -> None:
    part = part_of(directory, RANGES[0])
    both = []
    for _ in range(2):
        alone = [part.make_caches(), part.make_caches()]
        for caches, prompt in zip(alone, ([1, 2, 3, 4], [5, 6]), strict=True):
            plainly(part, caches, prompt, None)
        batch = Batch()
        batch.join([1, 2], alone)
        both.append(batch)
    started = Prepared(part, both[0].caches, 2)
    started.start([7, 8])
    started.undo()
    steps = [values_of(part.forward(mx.array([[9], [10]], dtype=mx.uint32), batch.caches)) for batch in both]
    assert np.array_equal(*steps)


def test_a_prepared_step_changes_its_caches_in_place(directory: Path) -> None:
    part = part_of(directory, LayerRange(0, LAYERS))

    def peak_of_a_step(step: Any) -> int:
        caches = part.make_caches()
        plainly(part, caches, [1 + i % 300 for i in range(500)], None)
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        step(caches)
        return int(mx.get_peak_memory() - before)

    def prepared_step(caches: list[Any]) -> None:
        prepared = Prepared(part, caches)
        values_of(prepared.filled([7], None))

    def started_step(caches: list[Any]) -> None:
        prepared = Prepared(part, caches)
        prepared.start([7])
        values_of(prepared.filled([7], None))

    plain = peak_of_a_step(lambda caches: plainly(part, caches, [7], None))
    prepared = peak_of_a_step(prepared_step)
    copy_of_one_cache = 512 * 2 * 16 * part.activation_dtype.size
    assert prepared < plain + copy_of_one_cache
    assert peak_of_a_step(started_step) < plain + copy_of_one_cache


@pytest.mark.parametrize(("family", "possible"), [("qwen3", True), ("gpt_oss", False), ("mamba2", False)])
def test_only_models_with_plain_caches_are_prepared(tmp_path: Path, family: str, possible: bool) -> None:
    part = part_of(make_tiny_model(family, tmp_path), LayerRange(0, LAYERS))
    assert can_prepare(part.make_caches()) is possible
