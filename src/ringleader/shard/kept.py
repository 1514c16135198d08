"""What one shard keeps of sequences for those that begin alike: the blocks that frames name, and states of its caches.

A run of blocks that was kept at once is one array of each layer's keys and one of its values, so that beginning from it
is one concatenation. Nothing here shares memory with a slot's caches for longer than until their next step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, ChunkedKVCache, RotatingKVCache

from ringleader.shard.batches import row_alone
from ringleader.shard.prefixes import BLOCK_TOKENS, ROOT, Drop, Keep
from ringleader.shard.quantised import leaves as plain_parts
from ringleader.shard.quantised import plain_kv
from ringleader.shard.slice import Slice

STATE_TOKENS_UNKNOWN = 1024  # what a state counts for where no layer says what a token takes


@dataclass(slots=True)
class _Run:
    """Blocks that follow each other. `tokens` are known on the tail alone."""

    parent: bytes
    names: list[bytes]
    stops: list[int]  # where each block ends, counted from where the run begins
    pieces: list[Any]  # of each leaf that can be cut: its keys and values; None of layers that are not ours
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class Kept:
    """The store of one shard. Blocks are known by the names that frames give them."""

    _blocks: dict[bytes, tuple[_Run, int]] = field(default_factory=dict)  # a block's run and its place in it
    _states: dict[bytes, list[dict[str, Any]]] = field(default_factory=dict)

    def names(self) -> frozenset[bytes]:
        """Of all blocks."""
        return frozenset(self._blocks)

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
        self._states.clear()

    # ------------------------------------------------------------ keeping and dropping

    def keep(self, order: Keep, caches: Sequence[Any], row: int | None, tokens: tuple[int, ...] = ()) -> None:
        """Copy out of a slot's caches, or out of its row of a batch's, what is ordered; evaluates them."""
        leaves = list(_leaves(caches))
        if order.names:
            pieces = [_cut(leaf, row, order.start, order.stop) for leaf in leaves if _is_cuttable(leaf)]
            stops = [BLOCK_TOKENS * (at + 1) for at in range(len(order.names))]
            stops[-1] = order.stop - order.start
            run = _Run(order.parent, list(order.names), stops, pieces, tokens)
            mx.eval(pieces)
            self._blocks.update((name, (run, at)) for at, name in enumerate(order.names))
        if order.state:
            alone = [leaf if row is None else row_alone(leaf, row) for leaf in leaves if not _is_cuttable(leaf)]
            self._states[order.last] = states = [_detached(vars(leaf)) for leaf in alone]
            mx.eval([list(state.values()) for state in states])

    def drop(self, order: Drop) -> None:
        """Forget what is ordered; the memory of dropped blocks is free afterwards."""
        for name in (*order.states, *order.names):
            self._states.pop(name, None)
        cut: dict[int, tuple[_Run, int]] = {}
        for name in order.names:
            if (found := self._blocks.pop(name, None)) is not None:
                run, at = found
                cut[id(run)] = (run, min(at, cut.get(id(run), found)[1]))
        for run, at in cut.values():
            for name in run.names[at:]:  # nothing is left to follow
                self._blocks.pop(name, None)
            _shorten(run, at)

    # ------------------------------------------------------------ beginning

    def begin(self, name: bytes, caches: Sequence[Any]) -> tuple[int, tuple[int, ...]] | None:
        """Fill fresh caches with what is kept of this prefix: how many tokens these are, and on the tail which. None
        when something of it is missing here; then nothing is changed."""
        if name == ROOT:
            return 0, ()
        leaves = list(_leaves(caches))
        path, stateful = self._path(name), [leaf for leaf in leaves if not _is_cuttable(leaf)]
        states = self._states.get(name)
        if path is None or (stateful and states is None):
            return None
        count = sum(stop for _, stop in path)
        for at, leaf in enumerate(leaf for leaf in leaves if _is_cuttable(leaf)):
            pieces = [_shortened(run.pieces[at], stop, run.stops[-1]) for run, stop in path]
            _fill(leaf, pieces, count)
        for leaf, state in zip(stateful, states or (), strict=True):
            vars(leaf).update(_detached(state))
        return count, tuple(token for run, stop in path for token in run.tokens[:stop])

    def _path(self, name: bytes) -> list[tuple[_Run, int]] | None:
        """Runs that the prefix consists of, first one first, and how many tokens of each."""
        path: list[tuple[_Run, int]] = []
        while name != ROOT:
            if (found := self._blocks.get(name)) is None:
                return None
            run, at = found
            path.append((run, run.stops[at]))
            name = run.parent
        return path[::-1]


def _shorten(run: _Run, blocks: int) -> None:
    if not blocks:
        return
    stop = run.stops[blocks - 1]
    for at, piece in enumerate(run.pieces):  # one after the other: only one is there twice at a time
        run.pieces[at] = _shortened(piece, stop, run.stops[-1])
        mx.eval(run.pieces[at])
    run.names, run.stops, run.tokens = run.names[:blocks], run.stops[:blocks], run.tokens[:stop]


def _shortened(piece: Any, stop: int, length: int) -> Any:
    return piece if stop == length else _mapped(piece, lambda array: mx.contiguous(array[..., :stop, :]))


# ---------------------------------------------------------------- caches


def _leaves(caches: Sequence[Any]) -> Iterator[Any]:
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from _leaves(cache.caches)
        else:
            yield from (part for part in plain_parts(cache) if part is not None)


def _is_cuttable(leaf: Any) -> bool:
    """Whether a cache holds its positions one beside the other, all of them: any first ones stand for a prefix."""
    return plain_kv(leaf)


def _cut(leaf: Any, row: int | None, start: int, stop: int) -> Any:
    if leaf.keys is None:
        return None
    if row is None:
        return _mapped((leaf.keys, leaf.values), lambda array: mx.contiguous(array[..., start:stop, :]))
    padding = int(leaf.left_padding[row].item())
    begin, end = padding + start, padding + stop
    return _mapped((leaf.keys, leaf.values), lambda array: mx.contiguous(array[row : row + 1, :, begin:end, :]))


def _fill(leaf: Any, pieces: list[Any], count: int) -> None:
    leaf.offset = count
    if pieces and pieces[0] is not None:
        room = -count % leaf.step  # as it would have grown itself: the next steps then write in place
        leaf.keys, leaf.values = _joined(pieces, room)


def _joined(pieces: list[Any], room: int) -> Any:
    """Arrays, or tuples of them, one behind the other along the positions, with `room` more of these."""
    first = pieces[0]
    if isinstance(first, mx.array):
        shape = (*first.shape[:-2], room, first.shape[-1])
        parts = [*pieces, mx.zeros(shape, first.dtype)] if room else pieces
        return mx.concatenate(parts, axis=-2) if len(parts) > 1 else mx.contiguous(first)
    return tuple(_joined(list(parts), room) for parts in zip(*pieces, strict=True))


def _mapped(tree: Any, function: Any) -> Any:
    if isinstance(tree, mx.array):
        return function(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(_mapped(part, function) for part in tree)
    return tree


def _detached(attributes: dict[str, Any]) -> dict[str, Any]:
    """A cache's attributes with arrays of their own: caches write into theirs in place."""
    return {name: copy.deepcopy(_mapped(value, mx.contiguous)) for name, value in attributes.items()}


# ---------------------------------------------------------------- what states weigh


def state_tokens_of(part: Slice) -> int:
    """How many tokens' room a state of its caches takes; 0 where all can be cut at a position. Computes two tokens."""
    caches = part.make_caches()
    if all(_is_cuttable(leaf) for leaf in _leaves(caches)):
        return 0
    tokens = mx.array([[1, 2]], dtype=mx.uint32)
    received = None if part.head else mx.zeros((1, 2, part.hidden_size), dtype=part.activation_dtype)
    mx.eval(part.forward(tokens, caches, received))
    each = held = 0
    for leaf in _leaves(caches):
        arrays = [value for value in _flat(list(vars(leaf).values())) if isinstance(value, mx.array)]
        window = {RotatingKVCache: "max_size", ChunkedKVCache: "chunk_size"}.get(type(leaf))
        if _is_cuttable(leaf) or window is not None:
            a_token = sum(int(array.nbytes) // int(array.shape[-2]) for array in arrays if array.ndim == 4)
            each += a_token
            held += 0 if window is None else a_token * int(getattr(leaf, window))
        else:
            held += sum(int(array.nbytes) for array in arrays)
    return max(1, -(-held // each)) if each else STATE_TOKENS_UNKNOWN


def _flat(tree: Any) -> Iterator[Any]:
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from _flat(part)
    else:
        yield tree
