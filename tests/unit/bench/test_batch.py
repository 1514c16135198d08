"""What is counted when many are answered at once, and that the whole benchmark runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.bench.batch import COUNTS, measure_batch, rate
from ringleader.bench.ring import Run
from ringleader.values import ModelId
from tests.ring.tiny_models import make_tiny_model


def run(*at: float) -> Run:
    arrivals = tuple((seconds, 1) for seconds in at)
    return Run(tuple(range(len(at))), arrivals, passes=len(at), forced_tokens=0, frame_bytes=0)


def test_the_rate_is_that_of_the_time_in_which_all_are_answered() -> None:
    first, second = run(1.0, 2.0, 3.0, 4.0, 5.0), run(2.5, 3.5, 4.5, 5.5, 6.5)
    assert rate([first, second]) == pytest.approx(5 / 2.5)  # at 3, 3.5, 4, 4.5 and 5, from 2.5 on


def test_where_they_never_run_at_once_it_is_all_tokens_over_all_the_time() -> None:
    assert rate([run(1.0, 2.0), run(3.0, 4.0)]) == pytest.approx(4 / 4.0)


@pytest.mark.ring
async def test_a_tiny_ring_is_measured_in_both_ways(tmp_path: Path) -> None:
    directory = make_tiny_model("llama", tmp_path, tokenizer=True)
    result = await measure_batch(directory, ModelId("tiny"), shards=2, tokens=8, rounds=1, say=lambda _: None)
    flat = result.flat()
    assert all(float(flat[f"together_{count}_tok_s"]) > 0 < float(flat[f"gain_{count}"]) for count in COUNTS)
    assert float(flat["together_newcomer_s"]) > 0
    assert len(result.lines()) == len(COUNTS) + 1
