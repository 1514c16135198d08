"""The next decode step of a slot or a batch, its graph built before its input is known: Python's part of a pass, done
while waiting. The inputs are arrays whose buffers are written when the frame comes, just before the graph is evaluated.

A ring of one knows its next tokens as soon as they are drawn: there the step starts ahead. Only for models whose caches
are all plain KV caches: of those we know how to take a step back.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ringleader.shard.quantised import leaves, plain_kv
from ringleader.shard.slice import Slice


def can_prepare(caches: list[Any]) -> bool:
    """Whether a step over these caches can be prepared, and undone."""
    return all(plain_kv(leaf) for cache in caches for leaf in leaves(cache))


class Prepared:
    """One step of one token of each row. The caches are a step ahead until it is `filled` or undone; one of both must
    follow. `start` may come before."""

    def __init__(self, part: Slice, caches: list[Any], rows: int = 1) -> None:
        # Writing into a cache changes its arrays in place: the copies (of the handles, not of the data) stay.
        self._before = [
            (cache, copy.copy(cache.keys), copy.copy(cache.values), cache.offset, getattr(cache, "_idx", None))
            for held in caches
            for cache in leaves(held)
        ]
        self._caches = caches
        self._started: list[int] | None = None
        self._token = mx.array([[0]] * rows, dtype=mx.uint32)
        self._row: Any = None
        received: Any = None
        if not part.head:
            narrow = part.activation_dtype.size == 2  # numpy has no bf16: 16 bits travel as integers
            shape = (rows, 1, part.hidden_size)
            self._row = received = mx.array(np.zeros(shape, np.uint16 if narrow else np.float32))
            received = received.view(part.activation_dtype) if narrow else received
        mx.eval(self._token, [] if self._row is None else self._row)
        self._out = part.forward(self._token, caches, received)

    @property
    def started(self) -> bool:
        return self._started is not None

    def start(self, tokens: Sequence[int]) -> None:
        """Begin to compute, on a head, the step of these tokens: they will most likely come. On a CPU that takes
        nearly as long as the step."""
        mx.async_eval(self.filled(tokens, None))
        self._started = list(tokens)

    def filled(self, tokens: Sequence[int], row: Any) -> Any:
        """The output for a token of each row and their activations (numpy [rows, 1, hidden] as they came; None on the
        head), lazily. None when other tokens were started: then it is undone."""
        if self._started is not None:
            if self._started == list(tokens):
                return self._out
            self.undo()
            return None
        self._before.clear()  # or evaluation would have to copy the caches that it can now change in place
        np.array(self._token, copy=False)[:, 0] = tokens
        if self._row is not None:
            np.array(self._row, copy=False)[...] = row
        return self._out

    def undo(self) -> None:
        """Take the caches back to where they were: another step comes than was prepared."""
        if self._started is not None:  # what it wrote behind their end is written over
            for held in self._caches:
                for cache in leaves(held):
                    cache.trim(1)
        for cache, keys, values, offset, index in self._before:
            cache.keys, cache.values, cache.offset = keys, values, offset
            if index is not None:
                cache._idx = index
        self._before.clear()
