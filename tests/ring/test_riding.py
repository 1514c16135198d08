"""Every family shares passes as far as it was found to, and its rows give what its sequences give alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.batches import Batch
from ringleader.shard.loader import load_slice
from ringleader.shard.riding import ride_of
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.values import LayerRange, Ride
from tests.ring.tiny_configs import FAMILIES, LAYERS
from tests.ring.tiny_models import make_tiny_model

PROMPTS = (tuple(range(11, 16)), tuple(range(40, 63)), tuple(range(300, 308)))
ROUNDS: dict[Ride, list[tuple[tuple[int, ...], ...]]] = {
    "even": [((7,), (8,), (9,)), ((1, 2), (3, 4), (5, 6)), ((5,), (6,), (7,))],
    "ragged": [((7, 8, 9), (1,), (2, 3)), ((4,), (5,), (6,)), ((1,), (2, 3, 4, 5), (9,)), ((8,), (8,), (8,))],
}
TOLERANCE = 1e-4
# With mlx-lm 0.32. Their model files read batch caches wrongly or not at all, or have caches without a batch form.
LESS: dict[str, Ride] = {
    "gemma2": "alone",
    "gpt_bigcode": "alone",
    "llama4": "alone",
    "baichuan_m1": "even",
    "bailing_moe_linear": "even",
    "jamba": "even",
    "longcat_flash_ngram": "even",
    "mamba": "even",
    "nemotron_h": "even",
}


class Chain:
    """Two shards in a row, with the caches of one sequence or of a batch in each."""

    def __init__(self, parts: list[Slice]) -> None:
        self.parts = parts

    def step(self, caches: list[list[Any]], rows: tuple[tuple[int, ...], ...]) -> np.ndarray[Any, Any]:
        lengths = [len(row) for row in rows]
        out: Any = None
        for part, own in zip(self.parts, caches, strict=True):
            tokens = mx.array([[*row, *[0] * (max(lengths) - len(row))] for row in rows], dtype=mx.uint32)
            out = part.forward(tokens, own, out, lengths=lengths)
            mx.eval(out, cache_arrays(own))
        return np.array(out[:, 0])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_s_rows_give_together_what_they_give_alone(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path)
    ranges = (LayerRange(0, 2), LayerRange(2, LAYERS))
    parts = [load_slice(directory, layers, LAYERS, lambda _: None) for layers in ranges]
    orders: list[Ride] = ["alone", "even", "ragged"]
    ride = min((ride_of(part) for part in parts), key=orders.index)
    assert ride == LESS.get(family, "ragged")
    if ride == "alone":
        return
    chain = Chain(parts)
    alone, others = ([[part.make_caches() for part in parts] for _ in PROMPTS] for _ in range(2))
    for prompt, *both in zip(PROMPTS, alone, others, strict=True):
        for caches in both:
            chain.step(caches, (prompt,))
    batches = [Batch() for _ in parts]
    for number, caches in enumerate(others):
        for batch, own in zip(batches, caches, strict=True):
            batch.join([number], [own])
    for rows in [*ROUNDS["even"], *(ROUNDS["ragged"] if ride == "ragged" else [])]:
        lengths = [len(row) for row in rows]
        for batch in batches:
            batch.begin(lengths)
        together = chain.step([batch.caches for batch in batches], rows)
        for batch in batches:
            batch.end(lengths)
        for mine, row, caches in zip(together, rows, alone, strict=True):
            expected = chain.step(caches, (row,))[0]
            assert np.abs(mine - expected).max() < TOLERANCE, rows
            assert mine.argmax() == expected.argmax()
