"""KV caches whose keys and values are kept in 8 or 4 bits: of one sequence, and of a batch.

What mlx-lm's own caches keep of plain arrays is kept here of each part of a quantised one (codes, scales, biases), so
that rows join, leave, pad and trim as any others do. mlx-lm's attention knows such caches by their `bits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache

GROUP = 64  # values that share a scale and a bias
PARTS = 3


class _Quantised:
    """What both kinds share. `parts` are plain caches: of the codes, the scales and the biases."""

    group_size = GROUP

    def __init__(self, bits: int, parts: Sequence[Any]) -> None:
        self.bits = bits
        self.parts = list(parts)

    @property
    def offset(self) -> Any:
        return self.parts[0].offset

    @property
    def state(self) -> Any:
        """All arrays, to be evaluated."""
        return [(part.keys, part.values) for part in self.parts]

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in self.parts)

    def update_and_fetch(self, keys: Any, values: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Keep more, in `bits`; all that is kept, as mlx-lm's quantised attention takes it."""
        coded = zip(self._coded(keys), self._coded(values), strict=True)
        kept = [part.update_and_fetch(*each) for part, each in zip(self.parts, coded, strict=True)]
        return tuple(each for each, _ in kept), tuple(each for _, each in kept)

    def _coded(self, array: Any) -> Any:
        return mx.quantize(array, group_size=GROUP, bits=self.bits)

    def make_mask(self, *args: Any, **kwargs: Any) -> Any:
        return self.parts[0].make_mask(*args, **kwargs)

    def empty(self) -> bool:
        return bool(self.parts[0].empty())

    def is_trimmable(self) -> bool:
        return True

    def trim(self, count: int) -> int:
        """Forget the last `count` tokens."""
        return min(int(part.trim(count)) for part in self.parts)


class QuantisedKVCache(_Quantised):
    """Of one sequence."""

    def __init__(self, bits: int, parts: Sequence[KVCache] = ()) -> None:
        super().__init__(bits, parts or [KVCache() for _ in range(PARTS)])

    def size(self) -> int:
        return int(self.offset)

    @classmethod
    def merge(cls, caches: Sequence[QuantisedKVCache]) -> BatchQuantisedKVCache:
        """As the rows of a batch."""
        rows = zip(*(cache.parts for cache in caches), strict=True)
        return BatchQuantisedKVCache(caches[0].bits, [KVCache.merge(list(each)) for each in rows])


class BatchQuantisedKVCache(_Quantised):
    """Of several, as mlx-lm's BatchKVCache."""

    def prepare(self, **padding: Any) -> None:
        for part in self.parts:
            part.prepare(**padding)

    def finalize(self) -> None:
        for part in self.parts:
            part.finalize()

    def filter(self, rows: Any) -> None:
        for part in self.parts:
            part.filter(rows)

    def extend(self, other: BatchQuantisedKVCache) -> None:
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.extend(theirs)

    def extract(self, row: int) -> QuantisedKVCache:
        return QuantisedKVCache(self.bits, [part.extract(row) for part in self.parts])


def leaves(cache: Any) -> list[Any]:
    """The plain caches that a cache is made of: itself, unless it is quantised."""
    return cache.parts if isinstance(cache, _Quantised) else [cache]


def plain_kv(cache: Any) -> bool:
    """Whether it keeps keys and values of every token, and nothing else: what can be quantised."""
    return type(cache) in (KVCache, BatchKVCache)
