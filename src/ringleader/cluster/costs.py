"""What a range of layers costs in memory, to the byte: weights, and the KV cache of a whole context.

Arithmetic over `values.ModelCosts` only; what fits where is decided in plan.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import accumulate

from ringleader.errors import BadRequest
from ringleader.values import Draft, ModelCosts

KV_BITS = (8, 4)
KV_GROUP = 64  # values of a quantised cache that share a scale and a bias, each as wide as an activation


class Footprint:
    """Bytes of any layer range of one model with room for `context_tokens`, by prefix sums."""

    def __init__(self, costs: ModelCosts, context_tokens: int) -> None:
        self.layers = costs.layers
        self._head = costs.head_bytes
        self._tail = costs.tail_bytes
        self._weights = (0, *accumulate(costs.layer_bytes))
        self._kv = (0, *accumulate(size * context_tokens for size in costs.kv_bytes_per_token))
        self._both = tuple(w + k for w, k in zip(self._weights, self._kv, strict=True))

    def weights(self, start: int, stop: int) -> int:
        """Weights of layers `start` to `stop - 1`, plus the embedding or the output head."""
        ends = (self._head if start == 0 else 0) + (self._tail if stop == self.layers else 0)
        return self._weights[stop] - self._weights[start] + ends

    def kv(self, start: int, stop: int) -> int:
        """The caches of these layers when the context is full."""
        return self._kv[stop] - self._kv[start]

    def total(self, start: int, stop: int) -> int:
        return self.weights(start, stop) + self.kv(start, stop)

    def reach(self, start: int, room_bytes: int) -> int:
        """The furthest `stop` so that layers `start` to `stop - 1` fit; `start` if not one does."""
        if start == self.layers or self.total(start, self.layers) <= room_bytes:
            return self.layers
        room = room_bytes - (self._head if start == 0 else 0)
        stop = bisect_right(self._both, self._both[start] + room, lo=start) - 1
        return max(start, min(stop, self.layers - 1))

    def first(self, stop: int, room_bytes: int) -> int:
        """The least `start` so that layers `start` to `stop - 1` fit; `stop` if not one does."""
        room = room_bytes - (self._tail if stop == self.layers else 0)
        start = bisect_left(self._both, self._both[stop] - room, hi=stop)
        return start if start > 0 or self.total(0, stop) <= room_bytes else min(1, stop)


def with_kv_bits(costs: ModelCosts, bits: int) -> ModelCosts:
    """The same model with its caches kept in 8 or 4 bits; 0: as they are computed.

    Raises BadRequest for any other number.
    """
    if not bits:
        return costs
    if bits not in KV_BITS:
        raise BadRequest(f"kv_bits is {bits}; ask for 8 or 4", param="kv_bits")
    each = costs.cache_bytes
    kept = tuple(-(-size * (KV_GROUP * bits // 8 + 2 * each) // (KV_GROUP * each)) for size in costs.kv_bytes_per_token)
    return replace(costs, kv_bytes_per_token=kept)


def with_draft(costs: ModelCosts, draft: Draft | None) -> ModelCosts:
    """The same model with another one beside its head, which holds as many tokens as the ring."""
    if draft is None:
        return costs
    first, *others = costs.kv_bytes_per_token
    kept = (first + draft.kv_bytes_per_token, *others)
    return replace(costs, head_bytes=costs.head_bytes + draft.weight_bytes, kv_bytes_per_token=kept)


def readable(size_bytes: int) -> str:
    """`404.0 GB`, `92.9 MB`: decimal units and one digit, so that a reader can check the sums."""
    if abs(size_bytes) < 999_950_000:
        return f"{size_bytes / 1e6:.1f} MB"
    return f"{size_bytes / 1e9:.1f} GB"
