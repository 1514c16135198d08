"""Batch caches of one shard, in step with the rows that frames name: who is not named leaves, who is new joins.

mlx-lm's own batch caches do the work (merge, extend, filter, extract, prepare, finalize). What stands here beside
them is what they lack: caches of layers that are not ours, which count tokens and hold none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, BatchKVCache, CacheList, KVCache

from ringleader.shard.prepared import Prepared
from ringleader.shard.stepping import step_back

WASTE_MAX = 64  # columns in which every row has padding, left behind by rows of unequal length; then they are cut off


@dataclass(slots=True)
class Batch:
    """Sequences that are computed together: row i of every cache is the sequence of slot `rows[i]`."""

    rows: list[int] = field(default_factory=list)
    caches: list[Any] = field(default_factory=list)
    wasted: int = 0
    prepared: Prepared | None = None  # what is about to change the rows must undo it first

    def undo(self) -> None:
        """Take back the step that was prepared, if one was."""
        prepared, self.prepared = self.prepared, None
        if prepared is not None:
            prepared.undo()

    def keep(self, slots: Sequence[int]) -> None:
        """Only these rows stay, in this order."""
        indices = [self.rows.index(slot) for slot in slots]
        if indices == list(range(len(self.rows))):
            return
        self.undo()
        self.rows = list(slots)
        if not indices:
            self.caches = []
            return
        for cache in self.caches:
            cache.filter(indices)

    def join(self, slots: Sequence[int], caches: Sequence[list[Any]]) -> None:
        """Add rows of sequences that were computed alone until now; `caches` are theirs."""
        if not slots:
            return
        self.undo()
        merged = [_merged(layer) for layer in zip(*caches, strict=True)]
        if self.rows:
            for cache, other in zip(self.caches, merged, strict=True):
                _extend(cache, other)
        else:
            self.caches = merged
        self.rows += slots

    def take_out(self, slot: int) -> list[Any]:
        """A row's caches, as those of one sequence; the row stays until `keep` is told otherwise."""
        self.undo()
        row = self.rows.index(slot)
        return [row_alone(cache, row) for cache in self.caches]

    def step_back(self, counts: Sequence[int]) -> None:
        """Forget the last `counts[i]` positions of row i: what is not forgotten in all of them is padding."""
        if not any(counts):
            return
        self.undo()
        least = min(counts)
        step_back(self.caches, least)
        rest = [count - least for count in counts]
        if any(rest):
            for cache in self.caches:
                cache.prepare(right_padding=rest)
                _finalize(cache)
            self._waste(max(rest))

    def begin(self, lengths: Sequence[int]) -> None:
        """Rows of `lengths` tokens come, padded on the right to the longest."""
        longest = max(lengths)
        if min(lengths) < longest:
            padding = [longest - length for length in lengths]
            for cache in self.caches:
                cache.prepare(lengths=list(lengths), right_padding=padding)

    def end(self, lengths: Sequence[int]) -> None:
        """They have been computed: the padding goes to the left, where nothing looks."""
        longest = max(lengths)
        if min(lengths) == longest:
            return
        for cache in self.caches:
            _finalize(cache)
        self._waste(longest - max(1, min(lengths)))

    def _waste(self, columns: int) -> None:
        self.wasted += columns
        if self.wasted > WASTE_MAX:
            self.wasted = 0
            for cache in self.caches:
                cache.filter(list(range(len(self.rows))))


def _is_counter(cache: Any) -> bool:
    return isinstance(cache, KVCache | BatchKVCache) and cache.keys is None


def _is_stateless(cache: Any) -> bool:
    """A recurrent layer's that is not ours: it holds nothing at all, not even how many rows there are."""
    return isinstance(cache, ArraysCache) and cache.empty()


def _merged(caches: Sequence[Any]) -> Any:
    first = caches[0]
    if isinstance(first, CacheList):
        return CacheList(*(_merged(parts) for parts in zip(*(each.caches for each in caches), strict=True)))
    if _is_stateless(first):
        return ArraysCache(len(first.cache))
    if not _is_counter(first):
        return first.merge(list(caches))
    longest = max(cache.offset for cache in caches)
    batch = BatchKVCache([longest - cache.offset for cache in caches])
    batch.offset, batch._idx = mx.array([cache.offset for cache in caches]), longest
    return batch


def _extend(cache: Any, other: Any) -> None:
    if isinstance(cache, CacheList):
        for mine, theirs in zip(cache.caches, other.caches, strict=True):
            _extend(mine, theirs)
        return
    if _is_stateless(cache):
        return
    if _is_counter(cache):  # mlx-lm takes both for empty and does not align them
        longest = max(cache._idx, other._idx)
        for each in (cache, other):
            each.left_padding, each._idx = each.left_padding + (longest - each._idx), longest
    cache.extend(other)


def row_alone(cache: Any, row: int) -> Any:
    """A row of a batch's cache, as the cache of one sequence."""
    if isinstance(cache, CacheList):
        return CacheList(*(row_alone(part, row) for part in cache.caches))
    if _is_counter(cache):
        alone = KVCache()
        alone.offset = int(cache.offset[row].item())
        return alone
    if _is_stateless(cache):
        return ArraysCache(len(cache.cache))
    return cache.extract(row)


def _finalize(cache: Any) -> None:
    if isinstance(cache, CacheList):
        for part in cache.caches:
            _finalize(part)
    elif not _is_counter(cache):
        cache.finalize()
    elif cache._right_padding is not None:
        cache.offset = cache.offset - cache._right_padding
        cache.left_padding = cache.left_padding + cache._right_padding
        cache._right_padding = None
