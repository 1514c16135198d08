"""Cuts one of mlx-lm's models down to a layer range without a word of code per family.

The layer list keeps its length, so absolute layer indices and masks chosen by `cache[k]` stay right:
layers outside the range become pass-throughs that only advance their cache's counters. On a shard that
is not the head the embedding gives zeros and the first kept layer ignores its input for the activation
that came by wire. On one that is not the tail the last kept layer's output is tapped; norm and output
head are then lazy arrays that nobody evaluates, so they cost no memory and no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, BatchKVCache, CacheList, KVCache, make_prompt_cache

from ringleader.errors import ModelUnsupported
from ringleader.shard.quantised import QuantisedKVCache
from ringleader.values import LayerRange

LIST_NAMES = ("layers", "h", "blocks")  # what mlx-lm's models call their list of layers


class _Crossing:
    """What enters and leaves the kept layers during one forward pass."""

    __slots__ = ("last", "received", "tapped")

    def __init__(self) -> None:
        self.received: Any = None  # [batch, tokens, hidden], or None on the head
        self.tapped: Any = None
        # None: all positions; -1: the last; an array [batch, 1, 1]: this one of each row; an array [n]: these of all
        self.last: Any = None  # rows' positions, one row after the other


class _Stand(nn.Module):  # type: ignore[misc]  # mlx ships no types
    """Stands in a model's place of a module; attributes that models read on it are those of the original."""

    def __init__(self, original: Any) -> None:
        super().__init__()
        object.__setattr__(self, "_original", original)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_original"), name)


class _PassThrough(_Stand):
    """A layer that is not ours: hands its input on and keeps its cache's counters in step."""

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            advance(value, x.shape[1], x.shape[0])
        return x


class _Gate(_Stand):
    """The first or last kept layer (or both): takes the activation from the wire, taps it for the wire."""

    def __init__(self, original: Any, crossing: _Crossing, *, entry: bool, exit: bool, tail: bool) -> None:
        super().__init__(original)
        for name, value in (("_crossing", crossing), ("_entry", entry), ("_exit", exit), ("_tail", tail)):
            object.__setattr__(self, name, value)

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        crossing: _Crossing = object.__getattribute__(self, "_crossing")
        if object.__getattribute__(self, "_entry"):
            x = crossing.received
        out = object.__getattribute__(self, "_original")(x, *args, **kwargs)
        if object.__getattribute__(self, "_exit"):
            if not isinstance(out, mx.array):
                raise ModelUnsupported("this family's layers return more than one array; it cannot be cut")
            crossing.tapped = out
            if object.__getattribute__(self, "_tail") and crossing.last is not None:
                out = _chosen(out, crossing.last)
        return out


def _chosen(out: Any, last: Any) -> Any:
    """The positions that the tail looks at. What follows the layers works position by position."""
    if not isinstance(last, mx.array):
        return out[:, -1:, :]
    if last.ndim == 1:
        return out.reshape(1, -1, out.shape[-1])[:, last]
    return mx.take_along_axis(out, last, axis=1)


class _NoEmbedding(_Stand):
    """The embedding of a shard that is not the head. `as_linear` stays for a tail whose head is tied."""

    def __init__(self, original: Any, crossing: _Crossing) -> None:
        super().__init__(original)
        object.__setattr__(self, "_crossing", crossing)

    def __call__(self, ids: Any) -> Any:
        received = object.__getattribute__(self, "_crossing").received
        return mx.zeros((*ids.shape, received.shape[-1]), dtype=received.dtype)


def advance(cache: Any, count: int, rows: int = 1) -> None:
    """Advance a cache of a layer that is not ours by `count` tokens. Anything that is no cache is left alone."""
    if type(cache) is KVCache:
        cache.offset += count  # its masks read the offset alone
    elif type(cache) is BatchKVCache:
        cache.offset, cache._idx = cache.offset + count, cache._idx + count
    elif isinstance(cache, CacheList):
        for part in cache.caches:
            advance(part, count, rows)
    elif isinstance(cache, ArraysCache):
        cache.advance(count)
    elif hasattr(cache, "update_and_fetch"):
        narrow = mx.zeros((rows, 1, count, 1))
        cache.update_and_fetch(narrow, narrow)
        mx.eval([leaf for leaf in (cache.keys, cache.values) if isinstance(leaf, mx.array)])


class Slice:
    """Layers `layers` of `model`; computes one frame's part of a pass. Belongs to the thread that made it."""

    def __init__(self, model: Any, layers: LayerRange) -> None:
        self._model = model
        self._crossing = _Crossing()
        found = find_layers(model)
        self.layers = layers
        self.layer_count = len(found)
        if layers.stop > len(found):
            raise ModelUnsupported(f"layers {layers} asked of a model with {len(found)} layers")
        self.head = layers.start == 0
        self.tail = layers.stop == len(found)
        self.kept = found[layers.start : layers.stop]
        parent, name = _find_embedding(model)
        self.hidden_size = _width(parent[name])
        self.activation_dtype = _float_type(self.kept)
        if not self.head:
            parent[name] = _NoEmbedding(parent[name], self._crossing)
        self._quantised: tuple[int, ...] = ()
        self.kv_bits = 0
        self._cut(found)

    def _cut(self, found: list[Any]) -> None:
        first, last = self.layers.start, self.layers.stop - 1
        for i, layer in enumerate(found):
            if not first <= i <= last:
                found[i] = _PassThrough(_attributes_only(layer))
            elif i in (first, last):
                found[i] = _Gate(
                    layer, self._crossing, entry=i == first and not self.head, exit=i == last, tail=self.tail
                )

    def make_caches(self) -> list[Any]:
        """Fresh mlx-lm caches for one sequence, one for each layer that has one, foreign layers included."""
        caches = list(make_prompt_cache(self._model))
        for at in self._quantised:
            caches[at] = QuantisedKVCache(self.kv_bits)
        return caches

    def keep_in_bits(self, caches: Sequence[int], bits: int) -> None:
        """Make these caches quantised ones from now on; `kv_bits.keep_in_bits` knows which can be."""
        self._quantised, self.kv_bits = tuple(caches), bits

    def forward(
        self,
        tokens: Any,
        caches: list[Any],
        received: Any = None,
        *,
        last_only: bool = True,
        lengths: Sequence[int] = (),
        looked_at: Sequence[int] = (),
    ) -> Any:
        """Run the range over `tokens` (uint32 [batch, n]) and extend `caches`.

        `received` is the previous shard's activation [batch, n, hidden]; None on the head. `lengths` says how many
        tokens of each row are no padding, where rows differ. Returns lazily: the activation [batch, n, hidden], or on
        the tail logits [batch, 1, vocabulary], after each row's last token ([batch, n, vocabulary] unless `last_only`).
        With `looked_at`, those after so many last tokens of each row, in one line: [1, sum of them, vocabulary].
        """
        crossing = self._crossing
        crossing.received, crossing.tapped = received, None
        crossing.last = -1 if last_only else None
        if looked_at:
            lengths = lengths or [tokens.shape[1]] * tokens.shape[0]
            crossing.last = _flat(lengths, looked_at, tokens.shape[1])
        elif last_only and lengths and min(lengths) < tokens.shape[1]:
            crossing.last = mx.array([length - 1 for length in lengths])[:, None, None]
        out = self._model(tokens, cache=caches)
        tapped = crossing.tapped
        crossing.received = crossing.tapped = None
        return out if self.tail else tapped


def _flat(lengths: Sequence[int], looked_at: Sequence[int], width: int) -> Any:
    """The last `looked_at[i]` of row i's `lengths[i]` positions, all rows in one line."""
    rows = enumerate(zip(lengths, looked_at, strict=True))
    return mx.array([row * width + at for row, (length, count) in rows for at in range(length - count, length)])


def cache_arrays(caches: list[Any]) -> list[Any]:
    """All arrays that the caches hold, to be evaluated (an unevaluated cache grows its graph for ever)."""
    return list(_arrays([cache.state for cache in caches if cache is not None and not _is_counter(cache)]))


def _is_counter(cache: Any) -> bool:
    return type(cache) is KVCache and cache.keys is None


def _arrays(tree: Any) -> Iterator[Any]:
    if isinstance(tree, mx.array):
        yield tree
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _arrays(part)


def find_layers(model: Any) -> list[Any]:
    """The model's own list of layers (never the copy that `model.layers` of a pipelined family is).

    Raises ModelUnsupported when there is none.
    """
    queue = [model]
    while queue:
        module = queue.pop(0)
        for name in LIST_NAMES:
            value = module.get(name)
            if isinstance(value, list) and value and all(isinstance(item, nn.Module) for item in value):
                return value
        queue += [child for child in module.values() if isinstance(child, nn.Module)]
    raise ModelUnsupported("this model keeps its layers in no list that we know; it cannot be cut")


def _find_embedding(model: Any) -> tuple[Any, str]:
    queue = [model]
    while queue:
        module = queue.pop(0)
        for name, child in module.items():
            if isinstance(child, nn.Embedding | nn.QuantizedEmbedding):
                return module, name
        queue += [child for child in module.values() if isinstance(child, nn.Module)]
    raise ModelUnsupported("this model has no token embedding that we know; it cannot be cut")


def _width(embedding: Any) -> int:
    if isinstance(embedding, nn.QuantizedEmbedding):
        return int(embedding.scales.shape[-1]) * int(embedding.group_size)
    return int(embedding.weight.shape[-1])


def _float_type(layers: list[Any]) -> Any:
    """The activations' dtype: that of the layers' norms, which are never quantised."""
    for layer in layers:
        for name, array in tree_flatten(layer.parameters()):
            if "norm" in name and mx.issubdtype(array.dtype, mx.floating):
                return array.dtype
    return mx.float32


def _attributes_only(layer: Any) -> Any:
    """A copy of `layer` without weights: what models read on their layers (is_linear, use_sliding, ...)."""
    bare = nn.Module()
    for name, value in vars(layer).items():
        object.__setattr__(bare, name, value)
    for name, value in layer.items():
        if isinstance(value, str | int | float | bool | tuple) or value is None:
            bare[name] = value
    return bare
