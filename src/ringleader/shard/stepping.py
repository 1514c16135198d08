"""Takes caches back by some positions, and tries whether a model's can be: drafts that were wrong leave no trace.

Only caches that hold one entry a position can: a recurrent layer's state has no past, and a sliding window has
overwritten it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList

from ringleader.shard.quantised import leaves, plain_kv
from ringleader.shard.slice import Slice, cache_arrays

PROMPT = (7, 3, 4, 9, 6, 8, 2)
WRONG = (5, 1, 5)
RIGHT = (2, 4)
TOLERANCE = {mx.float32: 1e-3}
TOLERANCE_HALF = 0.1

log = logging.getLogger("ringleader.shard")


def step_back(caches: Sequence[Any], count: int) -> None:
    """Forget the last `count` positions of each cache, in all rows."""
    for cache in caches:
        if isinstance(cache, CacheList):
            step_back(cache.caches, count)
        else:
            cache.trim(count)


def steps_back(part: Slice) -> bool:
    """Whether caches of this slice's model may be taken back, found by a trial with a handful of tokens."""
    if not _all_can(part.make_caches()):
        log.info("this model's caches cannot step back: no drafts")
        return False
    try:
        return _leaves_no_trace(part)
    except Exception as fault:  # noqa: BLE001  # whatever a model file raises over shortened caches: the answer is no
        log.info("this model's caches cannot step back, so there are no drafts: %r", fault)
        return False


def _all_can(caches: Sequence[Any]) -> bool:
    return all(
        _all_can(cache.caches) if isinstance(cache, CacheList) else all(plain_kv(leaf) for leaf in leaves(cache))
        for cache in caches
    )


def _leaves_no_trace(part: Slice) -> bool:
    touched = part.make_caches()
    _step(part, touched, PROMPT)
    untouched = copy.deepcopy(touched)
    _step(part, touched, WRONG)
    step_back(touched, len(WRONG))
    mine, other = _step(part, touched, RIGHT), _step(part, untouched, RIGHT)
    tolerance = TOLERANCE.get(part.activation_dtype, TOLERANCE_HALF)
    return bool((mx.linalg.norm(mine - other) <= tolerance * mx.linalg.norm(other)).item())


def _step(part: Slice, caches: list[Any], tokens: tuple[int, ...]) -> Any:
    ids = mx.array([tokens], dtype=mx.uint32)
    received = None
    if not part.head:
        waves = mx.arange(1, part.hidden_size + 1, dtype=mx.float32)
        received = mx.sin(waves * (ids[..., None].astype(mx.float32) + 1)).astype(part.activation_dtype)
    out = part.forward(ids, caches, received)[:, -1].astype(mx.float32)
    mx.eval(out, cache_arrays(caches))
    return out
