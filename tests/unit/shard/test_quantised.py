"""Quantised caches: of one sequence as mlx-lm's own, of a batch as those of its rows alone."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import QuantizedKVCache

from ringleader.shard.quantised import GROUP, QuantisedKVCache, leaves

HEADS = 2


def some(tokens: int, seed: int) -> tuple[Any, Any]:
    """Keys and values of so many tokens."""
    keys = mx.random.normal((1, HEADS, tokens, GROUP), key=mx.random.key(seed))
    return keys, mx.random.normal((1, HEADS, tokens, GROUP), key=mx.random.key(seed + 1000))


def filled(bits: int, *counts: int, seed: int = 0) -> QuantisedKVCache:
    cache = QuantisedKVCache(bits)
    for number, count in enumerate(counts):
        cache.update_and_fetch(*some(count, seed + number))
    return cache


def attended(cache: Any, tokens: int, seed: int) -> Any:
    """What attention gives for `tokens` more."""
    rows = cache.offset.shape[0] if isinstance(cache.offset, mx.array) else 1
    keys, values = (mx.concatenate([each] * rows) for each in some(tokens, seed))
    queries = mx.random.normal((1, HEADS, tokens, GROUP), key=mx.random.key(seed + 7))
    mask = cache.make_mask(tokens, return_array=True, window_size=None)
    kept = cache.update_and_fetch(keys, values)
    return scaled_dot_product_attention(mx.concatenate([queries] * rows), *kept, cache, 0.125, mask)


@pytest.mark.parametrize("bits", [8, 4])
def test_one_sequence_is_kept_as_mlx_lm_keeps_it(bits: int) -> None:
    theirs = QuantizedKVCache(GROUP, bits)
    for number, count in enumerate((5, 300, 1)):
        theirs.update_and_fetch(*some(count, number))
    mine = filled(bits, 5, 300, 1)
    assert mine.offset == theirs.offset == 306
    assert mx.allclose(attended(mine, 3, 40), attended(theirs, 3, 40), atol=1e-6).item()


@pytest.mark.parametrize("bits", [8, 4])
def test_rows_of_a_batch_give_what_they_give_alone(bits: int) -> None:
    batch = QuantisedKVCache.merge([filled(bits, 5), filled(bits, 9, seed=50)])
    batch.extend(QuantisedKVCache.merge([filled(bits, 20, seed=90)]))
    alone = [filled(bits, 5), filled(bits, 9, seed=50), filled(bits, 20, seed=90)]
    together = attended(batch, 1, 7)
    for row, cache in enumerate(alone):
        assert mx.allclose(together[row : row + 1], attended(cache, 1, 7), atol=1e-5).item()
    batch.filter([0, 2])
    taken = batch.extract(1)
    assert (taken.size(), taken.bits) == (21, bits)
    assert mx.allclose(attended(taken, 2, 8), attended(alone[2], 2, 8), atol=1e-5).item()


def test_what_is_trimmed_is_forgotten_in_every_part() -> None:
    cache = filled(8, 10)
    assert cache.trim(4) == 4
    assert {part.offset for part in leaves(cache)} == {6}
    again = filled(8, 6)
    again.update_and_fetch(*some(3, 5))
    cache.update_and_fetch(*some(3, 5))
    assert cache.size() == again.size() == 9


def test_eight_bits_take_about_half_of_two_bytes_and_a_quarter_of_four() -> None:
    plain = filled(8, 256).parts[0].keys.shape[2] * 2 * HEADS * GROUP * 4
    assert [round(filled(bits, 256).nbytes / plain, 3) for bits in (8, 4)] == [0.281, 0.156]
