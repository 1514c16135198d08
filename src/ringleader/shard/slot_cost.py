"""What a slot holds beside what grows with its tokens: the states of recurrent layers, told in tokens.

The head counts memory in tokens, the same number for all shards; a state of some megabytes is worth hundreds of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlx_lm.models.cache import ArraysCache, CacheList

from ringleader.shard.quantised import leaves
from ringleader.shard.riding import step
from ringleader.shard.slice import Slice

PROMPT = (1, 5, 2)


def slot_tokens(part: Slice) -> int:
    """So many tokens the states of one slot are worth in this slice; 0 where nothing grows to compare them with."""
    caches = part.make_caches()
    step(part, caches, (PROMPT,))
    state = token = 0
    for cache in _flat(caches):
        if isinstance(cache, ArraysCache):
            state += 0 if cache.empty() else int(cache.nbytes)
        elif getattr(cache, "keys", None) is not None:
            token += sum(int(array.nbytes) // array.shape[2] for array in (cache.keys, cache.values))
    return -(-state // token) if token else 0


def _flat(caches: list[Any]) -> Iterator[Any]:
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from _flat(list(cache.caches))
        elif cache is not None:
            yield from leaves(cache)
