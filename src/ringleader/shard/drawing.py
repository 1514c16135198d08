"""What is as wide as the vocabulary, for all rows of a pass at once: grammar masks and draws. Rows do not meet.

A draw is a function of (seed, position): nothing else may influence it, other rows least of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

from ringleader.values import Sampling


def legal_tokens(matchers: Sequence[Any | None], width: int, drafts: Sequence[tuple[int, ...]] = ()) -> Any:
    """Which tokens each matcher allows, as an array of bools [rows, width]; None where there is no matcher.

    A matcher with drafts has a row more for each of them: what it allows after it. Takes no MLX: call it while the
    forward pass runs. Several masks are made by several threads.
    """
    drafts = drafts or ((),) * len(matchers)
    begins = [0, *accumulate(1 + len(each) for each in drafts)]
    held = [
        (matcher, row, list(draft))
        for matcher, row, draft in zip(matchers, begins, drafts, strict=False)
        if matcher is not None
    ]
    if not held:
        return None
    from llguidance.numpy import (
        allocate_token_bitmask,
        fill_next_token_bitmask,
        fill_next_token_bitmask_par,
        fill_next_token_bitmask_par_with_draft_tokens,
    )

    mask = allocate_token_bitmask(begins[-1], width)  # all ones: rows without a matcher may take anything
    drafting = [each for each in held if each[2]]  # the engine takes no matcher without drafts among them
    others = [(matcher, row) for matcher, row, draft in held if not draft]
    if drafting:
        fill_next_token_bitmask_par_with_draft_tokens(_executor(), drafting, mask)
    if len(others) == 1:
        fill_next_token_bitmask(others[0][0], mask, others[0][1])
    elif others:
        fill_next_token_bitmask_par(_executor(), others, mask)
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")
    return bits[:, :width].astype(np.bool_)


@cache
def _executor() -> Any:
    from llguidance import LLExecutor

    return LLExecutor()


def masked(logits: Any, legal: Any) -> Any:
    """Logits [rows, width] where what is not legal has no chance."""
    return logits if legal is None else mx.where(mx.array(legal), logits, -math.inf)


def drawn(logits: Any, samplings: Sequence[Sampling], positions: Sequence[int]) -> Any:
    """A token for each row of logits [rows, width], not yet computed. `positions` are the tokens before each."""
    warm: dict[tuple[float, int, float, float], list[int]] = {}
    for row, s in enumerate(samplings):
        if s.temperature != 0.0:
            warm.setdefault((s.temperature, s.top_k, s.top_p, s.min_p), []).append(row)
    if not warm:
        return mx.argmax(logits, axis=-1)
    found: list[Any] = [None] * len(samplings)
    for settings, rows in warm.items():
        part = _shaped(logits if len(rows) == len(samplings) else logits[mx.array(rows)], *settings)
        for at, row in enumerate(rows):
            key = draw_key(samplings[row].seed, positions[row])
            one = part[at : at + 1]
            # Noise for each token, and the largest sum wins: what rounding moves is then next to nothing. One number
            # against a running sum of 100,000 probabilities (mx.random.categorical) would turn on the sum's last bits.
            found[row] = mx.argmax(one + mx.random.gumbel(one.shape, key=key), axis=-1)
    greedy = [row for row, token in enumerate(found) if token is None]
    if greedy:
        best = mx.argmax(logits[mx.array(greedy)], axis=-1)
        for at, row in enumerate(greedy):
            found[row] = best[at : at + 1]
    return mx.concatenate(found)


def _shaped(rows: Any, temperature: float, top_k: int, top_p: float, min_p: float) -> Any:
    rows = rows / temperature
    rows = rows - mx.logsumexp(rows, axis=-1, keepdims=True)
    if 0 < top_k < rows.shape[-1]:
        rows = apply_top_k(rows, top_k)
    if top_p < 1.0:
        rows = apply_top_p(rows, top_p)
    if min_p > 0.0:
        rows = apply_min_p(rows, min_p)
    return rows


def draw_key(seed: int, position: int) -> Any:
    """The random key of the draw at `position` (tokens before it): SplitMix64's step keeps neighbours apart."""
    return mx.random.key((seed + (position + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
