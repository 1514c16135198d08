"""Rows that join, leave and return: each row's caches are always those of its sequence computed alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.batches import WASTE_MAX, Batch
from ringleader.shard.loader import load_slice
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.values import LayerRange
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

PROMPTS = {1: (5, 9, 2), 2: tuple(range(7, 30)), 3: (300, 45, 11, 7, 99)}
TOLERANCE = 1e-4


class Both:
    """A slice that computes sequences alone and together, and tells when they differ."""

    def __init__(self, part: Slice) -> None:
        self.part = part
        self.alone = {name: part.make_caches() for name in PROMPTS}
        self.batch = Batch()
        for name, prompt in PROMPTS.items():
            self.step(self.alone[name], (prompt,), (name,))

    def step(self, caches: list[Any], rows: tuple[tuple[int, ...], ...], names: tuple[int, ...]) -> Any:
        lengths = [len(row) for row in rows]
        tokens = mx.array([[*row, *[0] * (max(lengths) - len(row))] for row in rows], dtype=mx.uint32)
        received = None if self.part.head else mx.sin(tokens[..., None] + mx.arange(self.part.hidden_size))
        out = self.part.forward(tokens, caches, received, last_only=False, lengths=lengths)
        mx.eval(out, cache_arrays(caches))
        return out

    def join(self, *names: int) -> None:
        self.batch.join(names, [copy.deepcopy(self.alone[name]) for name in names])

    def check(self, **segments: tuple[int, ...]) -> None:
        """Compute these tokens of each row (a3=(7,)) in both ways."""
        names = tuple(int(name[1:]) for name in segments)
        assert list(names) == self.batch.rows
        rows = tuple(segments.values())
        lengths = [len(row) for row in rows]
        self.batch.begin(lengths)
        together = self.step(self.batch.caches, rows, names)
        self.batch.end(lengths)
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            alone = self.step(self.alone[name], (row,), (name,))[0]
            assert np.abs(np.array(together[at, : len(row)]) - np.array(alone)).max() < TOLERANCE, name


@pytest.fixture(params=["llama", "gemma3_text", "deepseek_v32", "qwen3_next", "kimi_linear"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Both:
    return Both(load_slice(make_tiny_model(request.param, tmp_path), LayerRange(2, LAYERS), LAYERS, lambda _: None))


def test_rows_join_leave_and_come_back_with_what_was_theirs(both: Both) -> None:
    both.join(1, 2)
    both.check(a1=(7,), a2=(8,))
    both.join(3)
    both.check(a1=(7,), a2=(8,), a3=(9,))
    left = both.batch.take_out(2)
    both.batch.keep([1, 3])
    both.check(a1=(4,), a3=(5,))
    assert np.allclose(
        np.array(both.step(left, ((6,),), (2,))), np.array(both.step(both.alone[2], ((6,),), (2,))), atol=TOLERANCE
    )
    both.batch.join([2], [left])
    both.check(a1=(4,), a3=(5,), a2=(6,))


def test_rows_of_unequal_length_leave_no_trace_of_their_padding(both: Both) -> None:
    both.join(1, 2, 3)
    both.check(a1=(7, 8, 9), a2=(3,), a3=(4, 4))
    both.check(a1=(7,), a2=(3,), a3=(4,))
    both.check(a1=(1,), a2=(5, 6, 7, 8), a3=(2,))
    both.batch.keep([3, 1])
    both.check(a3=(9,), a1=(9, 9))


def test_columns_that_are_padding_in_every_row_are_cut_off(tmp_path: Path) -> None:
    both = Both(load_slice(make_tiny_model("llama", tmp_path), LayerRange(0, LAYERS), LAYERS, lambda _: None))
    both.join(1, 3)
    long = tuple(range(1, 12))
    for _ in range(20):  # by turns one row is ten tokens longer: each pass leaves ten columns of padding in the other
        both.check(a1=long, a3=(5,))
        both.check(a1=(5,), a3=long)
    longest = max(len(PROMPTS[name]) for name in (1, 3)) + 20 * 12
    assert both.batch.caches[0].size() <= longest + WASTE_MAX + len(long)


def test_a_batch_that_nobody_is_left_in_is_empty_and_can_be_joined_again(both: Both) -> None:
    both.join(1, 2)
    both.batch.keep([])
    assert (both.batch.rows, both.batch.caches) == ([], [])
    both.join(3)
    both.check(a3=(7,))


@pytest.mark.parametrize("family", ["llama", "deepseek_v32"])
def test_rows_step_back_by_different_numbers_and_go_on_as_if_they_had_never_been_further(
    tmp_path: Path, family: str
) -> None:
    both = Both(load_slice(make_tiny_model(family, tmp_path), LayerRange(2, LAYERS), LAYERS, lambda _: None))
    both.join(1, 2, 3)
    both.check(a1=(7, 8, 9), a2=(3,), a3=(4, 4))
    for counts in ((2, 0, 3), (3, 3, 3), (0, 0, 0), (1, 2, 3)):
        wrong = {1: (9, 9, 9), 2: (8, 8, 8), 3: (7, 7, 7)}
        kept = {name: row[: len(row) - count] for (name, row), count in zip(wrong.items(), counts, strict=True)}
        both.batch.begin([3, 3, 3])
        both.step(both.batch.caches, tuple(wrong.values()), (1, 2, 3))
        both.batch.end([3, 3, 3])
        both.batch.step_back(counts)
        for name, row in kept.items():
            if row:
                both.step(both.alone[name], (row,), (name,))
        both.check(a1=(1,), a2=(2,), a3=(3,))
    both.batch.keep([3, 1])
    both.check(a3=(9,), a1=(9, 9))
