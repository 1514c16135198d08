"""A slot's next decode step, its graph built before its input is known: Python's part of a pass, done while waiting.

The inputs are arrays with a buffer of their own that is written when the frame comes, just before the graph is
evaluated. Only for models whose caches are all plain KV caches: of those we know how to take a step back.
"""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from ringleader.shard.slice import Slice


def can_prepare(caches: list[Any]) -> bool:
    """Whether a step over these caches can be prepared, and undone."""
    return all(type(cache) is KVCache for cache in caches)


class Prepared:
    """One step of one token. The caches are a step ahead until it is `filled` or `undone`; one of both must follow."""

    def __init__(self, part: Slice, caches: list[Any]) -> None:
        # Writing into a cache changes its arrays in place: the copies (of the handles, not of the data) stay.
        self._before = [(cache, copy.copy(cache.keys), copy.copy(cache.values), cache.offset) for cache in caches]
        self._token = mx.array([[0]], dtype=mx.uint32)
        self._row: Any = None
        received: Any = None
        if not part.head:
            narrow = part.activation_dtype.size == 2  # numpy has no bf16: 16 bits travel as integers
            self._row = received = mx.array(np.zeros((1, 1, part.hidden_size), np.uint16 if narrow else np.float32))
            received = received.view(part.activation_dtype) if narrow else received
        mx.eval(self._token, [] if self._row is None else self._row)
        self._out = part.forward(self._token, caches, received)

    def filled(self, token: int, row: Any) -> Any:
        """The output for this token and activation (numpy [1, 1, hidden] as it came; None on the head), lazily."""
        self._before.clear()  # or evaluation would have to copy the caches that it can now change in place
        np.array(self._token, copy=False)[...] = token
        if self._row is not None:
            np.array(self._row, copy=False)[...] = row
        return self._out

    def undo(self) -> None:
        """Take the caches back to where they were: another step comes than was prepared."""
        for cache, keys, values, offset in self._before:
            cache.keys, cache.values, cache.offset = keys, values, offset
        self._before.clear()
