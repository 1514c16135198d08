"""Tries how sequences of one model may share a pass: the answer is the model's own, no list of families.

Not every cache of mlx-lm has a batch form, not every model file reads its batch form rightly, and fewer take rows of
unequal length. What a trial with a handful of tokens does not find right is not done.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import mlx.core as mx

from ringleader.shard.batches import Batch
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.values import Ride

PROMPTS = ((1, 5, 2), (7, 3, 4, 9, 6, 8, 2), (2, 9, 8, 4, 1))
EVEN = (((3,), (6,), (4,)), ((8,), (2,), (7,)))  # passes of rows of one length: tokens of each row
RAGGED = (((5,), (1, 7, 3), (2, 4)), ((9,), (2,), (6,)), ((4, 4, 2, 6), (3,), (5, 8)), ((1,), (8,), (3,)))
# Of a row's own norm, as the norm of the difference. Where a family reads a batch wrongly it is 0.7 and more; half
# types and experts that change places at a hair's breadth are worth some percent.
TOLERANCE = {mx.float32: 1e-3}
TOLERANCE_HALF = 0.1

log = logging.getLogger("ringleader.shard")


def ride_of(part: Slice) -> Ride:
    """How rows of this slice's model may ride together. Runs some forty tokens through it."""
    try:
        if not _agree(part, EVEN):
            return "alone"
    except Exception as fault:  # noqa: BLE001  # whatever a model file raises over batch caches, the answer is no
        log.info("sequences take turns: batches are not possible with this model (%r)", fault)
        return "alone"
    try:
        return "ragged" if _agree(part, RAGGED) else "even"
    except Exception as fault:  # noqa: BLE001  # as above
        log.info("rows of unequal length are not possible with this model (%r)", fault)
        return "even"


def _agree(part: Slice, passes: tuple[tuple[tuple[int, ...], ...], ...]) -> bool:
    """Whether rows together give what they give alone."""
    alone, batch = [part.make_caches() for _ in PROMPTS], Batch()
    others = [part.make_caches() for _ in PROMPTS]
    for prompt, *both in zip(PROMPTS, alone, others, strict=True):
        for caches in both:
            _step(part, caches, (prompt,))
    batch.join([1, 2], others[:2])
    batch.join([3], others[2:])
    tolerance = TOLERANCE.get(part.activation_dtype, TOLERANCE_HALF)
    for rows in passes:
        lengths = [len(row) for row in rows]
        batch.begin(lengths)
        together = _step(part, batch.caches, rows)
        batch.end(lengths)
        for index, (row, caches) in enumerate(zip(rows, alone, strict=True)):
            if _difference(together[index], _step(part, caches, (row,))[0]) > tolerance:
                return False
    return True


def _step(part: Slice, caches: list[Any], rows: tuple[tuple[int, ...], ...]) -> Any:
    """What comes out after each row's last token, [batch, width]."""
    longest = max(len(row) for row in rows)
    tokens = mx.array([[*row, *[0] * (longest - len(row))] for row in rows], dtype=mx.uint32)
    lengths = [len(row) for row in rows]
    received = None if part.head else _received(part, tokens)
    out = part.forward(tokens, caches, received, lengths=lengths)
    last = out[:, 0] if part.tail else mx.stack([out[i, length - 1] for i, length in enumerate(lengths)])
    mx.eval(last, cache_arrays(caches))
    return last.astype(mx.float32)


def _received(part: Slice, tokens: Any) -> Any:
    """Activations that stand for these tokens, the same whatever rows are beside them."""
    waves = mx.arange(1, part.hidden_size + 1, dtype=mx.float32)
    return mx.sin(waves * (tokens[..., None].astype(mx.float32) + 1)).astype(part.activation_dtype)


def _difference(mine: Any, other: Any) -> float:
    return float(cast("float", (mx.linalg.norm(mine - other) / mx.maximum(mx.linalg.norm(other), 1e-9)).item()))
