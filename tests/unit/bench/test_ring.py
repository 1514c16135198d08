from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.bench.ring import Run, even_cuts, open_ring
from ringleader.errors import ModelFault, RingLost
from ringleader.values import LayerRange


def run(*arrivals: tuple[float, int]) -> Run:
    tokens = tuple(range(sum(count for _, count in arrivals)))
    return Run(tokens, arrivals, passes=len(arrivals), forced_tokens=0, frame_bytes=0)


def test_the_time_of_a_token_leaves_out_the_prompt_and_counts_forced_tokens() -> None:
    measured = run((5.0, 1), (5.1, 1), (5.4, 3))
    assert measured.token_s == pytest.approx(0.1)
    assert measured.wall_s == 5.4


def test_an_answer_of_one_token_has_no_speed() -> None:
    with pytest.raises(ModelFault, match="after one token"):
        _ = run((5.0, 1)).token_s


@pytest.mark.parametrize(("layers", "shards"), [(30, 1), (30, 2), (7, 3), (5, 5)])
def test_even_cuts_cover_all_layers_once_and_differ_by_one_layer_at_most(layers: int, shards: int) -> None:
    cuts = even_cuts(layers, shards)
    assert [layer for part in cuts for layer in range(part.start, part.stop)] == list(range(layers))
    assert max(map(len, cuts)) - min(map(len, cuts)) <= 1
    assert all(isinstance(part, LayerRange) for part in cuts)


@pytest.mark.ring
async def test_a_shard_that_cannot_load_its_model_ends_the_benchmark_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(RingLost, match=r"did not start: .*config\.json"):
        async with open_ring(tmp_path, 4, 1):
            pass
