"""Tries how sequences of one model may share a pass: the answer is the model's own, no list of families.

Not every cache of mlx-lm has a batch form, not every model file reads its batch form rightly, and fewer take rows of
unequal length. What a trial with a handful of tokens does not find right is not done.
"""

from __future__ import annotations

import copy
import logging
from typing import Any, cast

import mlx.core as mx

from ringleader.shard.batches import Batch
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.values import Ride

Rows = tuple[tuple[int, ...], ...]  # the tokens of each row of a pass
PROMPTS: Rows = ((1, 5, 2), (7, 3, 4, 9, 6, 8, 2))
RAGGED: tuple[Rows, ...] = (((1, 7, 3), (5,)), ((9,), (2, 4)), ((4,), (3,)))
EVEN: tuple[Rows, ...] = (((3,), (6,)), ((8,), (2,)))
# Of a row's own norm, as the norm of the difference. Where a family reads a batch wrongly it is 0.7 and more; half
# types, experts that change places and codes of quantised caches that round at a hair's breadth are worth some percent.
TOLERANCE = {mx.float32: 1e-3}
TOLERANCE_HALF = 0.1

log = logging.getLogger("ringleader.shard")


def ride_of(part: Slice) -> Ride:
    """How rows of this slice's model may ride together. Runs some twenty tokens through it."""
    tries: tuple[tuple[Ride, tuple[Rows, ...]], ...] = (("ragged", RAGGED), ("even", EVEN))
    for ride, passes in tries:
        try:
            if _agree(part, passes):
                return ride
        except Exception as fault:  # noqa: BLE001  # whatever a model file raises over batch caches: the answer is no
            log.info("this model's rows cannot be %s in one pass: %r", ride, fault)
    return "alone"


def _agree(part: Slice, passes: tuple[Rows, ...]) -> bool:
    """Whether rows together give what they give alone."""
    alone = [part.make_caches() for _ in PROMPTS]
    for prompt, caches in zip(PROMPTS, alone, strict=True):
        step(part, caches, (prompt,))
    batch = Batch()
    for number, caches in enumerate(alone):  # one joins the other, as answers do
        batch.join([number], [copy.deepcopy(caches)])
    tolerance = TOLERANCE_HALF if part.kv_bits else TOLERANCE.get(part.activation_dtype, TOLERANCE_HALF)
    for rows in passes:
        lengths = [len(row) for row in rows]
        batch.begin(lengths)
        together = step(part, batch.caches, rows)
        batch.end(lengths)
        for mine, row, caches in zip(together, rows, alone, strict=True):
            if difference(mine, step(part, caches, (row,))[0]) > tolerance:
                return False
    return True


def step(part: Slice, caches: list[Any], rows: Rows) -> Any:
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


def difference(mine: Any, other: Any) -> float:
    """The norm of the difference, of `other`'s own norm."""
    return float(cast("float", (mx.linalg.norm(mine - other) / mx.maximum(mx.linalg.norm(other), 1e-9)).item()))
