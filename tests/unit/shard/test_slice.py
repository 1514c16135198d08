"""The surgery: stand-ins keep step with the real thing, what is not ours costs nothing, what cannot be cut is told."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.utils
import numpy as np
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from ringleader.errors import ModelUnsupported
from ringleader.models.headers import read_costs
from ringleader.shard.loader import load_slice
from ringleader.shard.slice import Slice, advance, cache_arrays, find_layers
from ringleader.values import LayerRange, ModelId
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

COUNTS = (5, 4, 1, 1, 1, 3, 8, 1, 300)
PROMPT = mx.array([[5, 9, 2, 300, 17, 4, 4]], dtype=mx.uint32)
WINDOW = 5


# ---------------------------------------------------------------- ghosts


@pytest.mark.parametrize(
    "make",
    [KVCache, lambda: RotatingKVCache(max_size=WINDOW), lambda: ChunkedKVCache(WINDOW)],
    ids=["full", "sliding", "chunked"],
)
def test_a_ghost_cache_counts_as_a_real_one_does(make: Callable[[], Any]) -> None:
    real, ghost = make(), make()
    for count in COUNTS:
        for cache in (real, ghost):
            if isinstance(cache, ChunkedKVCache):
                cache.maybe_trim_front()
        assert masks(ghost) == masks(real)
        real.update_and_fetch(mx.zeros((1, 2, count, 16)), mx.zeros((1, 2, count, 16)))
        advance(ghost, count)
        for name in ("offset", "_idx", "start_position"):
            assert getattr(ghost, name, None) == getattr(real, name, None)
    assert sum(array.nbytes for array in (ghost.keys, ghost.values) if array is not None) * 16 <= real.nbytes


def masks(cache: Any) -> list[Any]:
    """What models would ask of this cache: masks for one token and for several."""
    if not hasattr(cache, "make_mask"):
        return []
    asked = [cache.make_mask(count, window_size=window, return_array=True) for count in (1, 4) for window in (None, 3)]
    return [mask if mask is None or isinstance(mask, str) else np.array(mask).tolist() for mask in asked]


def test_a_ghost_of_several_caches_advances_each() -> None:
    ghost = CacheList(KVCache(), RotatingKVCache(max_size=WINDOW), ArraysCache(2))
    ghost.caches[2].lengths = mx.array([10])
    advance(ghost, 4)
    assert [ghost.caches[0].offset, ghost.caches[1].offset, ghost.caches[2].lengths.item()] == [4, 4, 6]


def test_what_is_no_cache_is_left_alone() -> None:
    for value in (None, "causal", mx.zeros((2, 2)), 3):
        advance(value, 4)


def test_a_sequence_that_only_counts_holds_no_arrays() -> None:
    ghost = KVCache()
    advance(ghost, 1000)
    assert cache_arrays([ghost, None]) == []


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_5", "deepseek_v32", "baichuan_m1"])
def test_after_a_prompt_every_cache_stands_where_the_whole_model_s_stands(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path)
    model, _ = mlx_lm.utils.load_model(directory)
    whole = make_prompt_cache(model)
    model(PROMPT, cache=whole)
    part = load_slice(directory, LayerRange(2, 4), LAYERS, lambda _: None)
    caches = part.make_caches()
    part.forward(PROMPT, caches, mx.zeros((1, 7, part.hidden_size)))
    assert offsets(caches) == offsets(whole)
    assert any(offsets(whole))


def offsets(caches: list[Any]) -> list[int]:
    flat = [part for cache in caches for part in (cache.caches if isinstance(cache, CacheList) else [cache])]
    return [cache.offset for cache in flat if hasattr(cache, "offset")]


# ---------------------------------------------------------------- memory


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight layers of 3 MB."""
    directory = tmp_path_factory.mktemp("heavy")
    return make_tiny_model("llama", directory, num_hidden_layers=8, hidden_size=256, intermediate_size=768)


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 4), (7, 8), (2, 6), (0, 8)])
def test_a_shard_holds_the_bytes_of_its_own_layers_as_the_plan_counts_them(heavy: Path, start: int, stop: int) -> None:
    costs = read_costs(heavy, ModelId("heavy"))
    expected = sum(costs.layer_bytes[start:stop])
    expected += costs.head_bytes if start == 0 else 0
    expected += costs.tail_bytes if stop == 8 else 0
    if (start, stop) == (0, 8):
        expected -= costs.head_bytes  # tied: one matrix serves both ends of a ring of one
    held, part = held_by(lambda: load_slice(heavy, LayerRange(start, stop), 8, lambda _: None))
    assert held == pytest.approx(expected, rel=0.02)
    assert len(part.kept) == stop - start


def held_by(load: Callable[[], Slice]) -> tuple[int, Slice]:
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    part = load()
    gc.collect()
    return mx.get_active_memory() - before, part


# ---------------------------------------------------------------- kinds of weights


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("qwen3", {"bits": 4}),
        ("qwen3_moe", {"bits": 8}),
        ("gemma3_text", {"dtype": mx.bfloat16}),
        ("llama", {"dtype": mx.float16}),
    ],
    ids=["4 bits", "8 bits, experts", "bf16", "f16"],
)
def test_packed_and_half_models_are_cut_without_a_difference(
    family: str, options: dict[str, Any], tmp_path: Path
) -> None:
    directory = make_tiny_model(family, tmp_path, **options)
    model, _ = mlx_lm.utils.load_model(directory)
    expected = model(PROMPT, cache=make_prompt_cache(model))[:, -1:]
    out: Any = None
    for layers in (LayerRange(0, 1), LayerRange(1, 4), LayerRange(4, LAYERS)):
        part = load_slice(directory, layers, LAYERS, lambda _: None)
        assert part.hidden_size == 64
        out = part.forward(PROMPT, part.make_caches(), out)
        if not part.tail:
            assert out.dtype == part.activation_dtype
    assert mx.array_equal(out, expected)


# ---------------------------------------------------------------- what cannot be cut


class TwoOutputs(nn.Module):  # type: ignore[misc]  # mlx ships no types
    def __call__(self, x: Any, mask: Any = None, cache: Any = None) -> Any:
        return x, x


class Odd(nn.Module):  # type: ignore[misc]  # mlx ships no types
    """A model with whatever is handed in."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def __call__(self, tokens: Any, cache: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_range_past_the_last_layer_is_refused(tmp_path: Path) -> None:
    model, _ = mlx_lm.utils.load_model(make_tiny_model("llama", tmp_path), lazy=True)
    with pytest.raises(ModelUnsupported, match="a model with 6 layers"):
        Slice(model, LayerRange(3, 9))


def test_a_model_without_a_list_of_layers_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match="no list"):
        find_layers(Odd(embed=nn.Embedding(8, 4)))


def test_a_model_without_an_embedding_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match="no token embedding"):
        Slice(Odd(layers=[nn.Linear(4, 4)]), LayerRange(0, 1))


def test_layers_that_return_more_than_one_array_are_refused_where_they_would_cross_the_cut() -> None:
    part = Slice(Odd(embed=nn.Embedding(8, 4), layers=[TwoOutputs(), TwoOutputs()]), LayerRange(0, 1))
    with pytest.raises(ModelUnsupported, match="more than one array"):
        part.forward(mx.array([[1, 2]]), [None, None])
