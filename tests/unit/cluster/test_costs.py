from __future__ import annotations

from dataclasses import replace

import pytest

from ringleader.cluster.costs import Footprint, readable, with_draft, with_kv_bits
from ringleader.errors import BadRequest
from ringleader.values import Draft, ModelCosts, ModelId

COSTS = ModelCosts(ModelId("m"), "d", "llama", (10, 20, 30), 5, 7, (1, 2, 0), 64, 1000)


def test_the_first_range_pays_for_the_embedding_and_the_last_for_the_output_head() -> None:
    size = Footprint(COSTS, 100)
    assert size.weights(0, 1) == 10 + 5
    assert size.weights(1, 2) == 20
    assert size.weights(1, 3) == 20 + 30 + 7
    assert size.weights(0, 3) == COSTS.weight_bytes


def test_a_range_pays_for_the_whole_context_in_each_of_its_caches() -> None:
    assert Footprint(COSTS, 100).kv(0, 3) == 300
    assert Footprint(COSTS, 100).total(1, 3) == 20 + 30 + 7 + 200


@pytest.mark.parametrize(
    ("cache_bytes", "bits", "kept"),
    [(2, 0, 256), (2, 8, 136), (2, 4, 72), (4, 8, 72), (4, 4, 40)],
)
def test_caches_in_fewer_bits_cost_their_codes_and_a_scale_and_a_bias_for_each_group(
    cache_bytes: int, bits: int, kept: int
) -> None:
    costs = replace(COSTS, layer_bytes=(10, 20), kv_bytes_per_token=(256, 0), cache_bytes=cache_bytes)
    assert with_kv_bits(costs, bits).kv_bytes_per_token == (kept, 0)


def test_other_numbers_of_bits_are_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="kv_bits is 5; ask for 8 or 4"):
        with_kv_bits(COSTS, 5)


def test_a_draft_model_weighs_on_the_head_alone_and_holds_as_many_tokens_as_the_ring() -> None:
    plain, both = Footprint(COSTS, 100), Footprint(with_draft(COSTS, Draft("small", 1000, 7)), 100)
    assert both.total(0, 1) == plain.total(0, 1) + 1000 + 7 * 100
    assert both.total(1, 3) == plain.total(1, 3)
    assert with_draft(COSTS, None) == COSTS


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("room", range(0, 420, 3))
def test_reach_is_the_furthest_stop_that_fits(start: int, room: int) -> None:
    size = Footprint(COSTS, 100)
    fitting = [stop for stop in range(start + 1, 4) if size.total(start, stop) <= room]
    assert size.reach(start, room) == max(fitting, default=start)


def test_sizes_read_as_people_write_them() -> None:
    assert readable(404_000_000_000) == "404.0 GB"
    assert readable(92_900_000) == "92.9 MB"
    assert readable(999_990_000) == "1.0 GB"
