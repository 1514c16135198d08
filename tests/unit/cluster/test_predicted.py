from __future__ import annotations

import pytest

from ringleader.cluster.fleet import fleet
from ringleader.cluster.predicted import Predicted, predict
from ringleader.cluster.timing import EFFICIENCY
from tests.unit.cluster.builders import GB, model, node
from tests.unit.cluster.public_results import FITTED, HELD_OUT, MISSED, SLOW_HOPS, Result


def predicted(result: Result) -> Predicted:
    nodes = fleet(
        {
            "link": "thunderbolt5",
            "node": [{"name": "mac", "chip": result.chip, "memory_gb": 512, "count": result.count}],
            "links": []
            if result.hop_ms is None
            else [
                {"between": [f"mac-{a}", f"mac-{b}"], "latency_ms": result.hop_ms, "gbit_per_s": 10}
                for a in range(1, result.count + 1)
                for b in range(a + 1, result.count + 1)
            ],
        }
    )
    costs = result.costs()
    cuts = [costs.layers * part // result.count for part in range(result.count + 1)]
    return predict(costs, list(zip(nodes, cuts, cuts[1:], strict=False)), 1)


@pytest.mark.parametrize("result", FITTED, ids=lambda result: str(result.label))
def test_the_single_macs_that_the_constants_were_fitted_to_are_met_within_five_per_cent(result: Result) -> None:
    assert predicted(result).tokens_per_s == pytest.approx(result.tokens_per_s, rel=0.05)


@pytest.mark.parametrize("result", HELD_OUT, ids=lambda result: f"{result.count} x {result.label}")
def test_public_results_that_were_held_out_are_met_within_25_per_cent(result: Result) -> None:
    assert predicted(result).tokens_per_s == pytest.approx(result.tokens_per_s, rel=0.25)


@pytest.mark.parametrize("result", SLOW_HOPS, ids=lambda result: str(result.label))
def test_where_an_engines_hop_is_known_its_other_results_are_met_within_25_per_cent(result: Result) -> None:
    assert predicted(result).tokens_per_s == pytest.approx(result.tokens_per_s, rel=0.25)


def test_what_is_missed_is_what_the_page_says_is_missed() -> None:
    nemotron, deepseek = MISSED
    assert predicted(nemotron).tokens_per_s == pytest.approx(5.6, abs=0.05)
    costs = nemotron.costs()
    at_best = 273 * GB / (sum(costs.layer_bytes) + costs.tail_bytes)
    assert at_best < nemotron.tokens_per_s, "four bits at Apple's own bandwidth, with nothing else to do, are slower"
    assert predicted(deepseek).tokens_per_s == pytest.approx(13.8, abs=0.05)


def test_many_streams_are_bounded_by_the_slowest_stage_and_by_how_many_are_in_flight() -> None:
    a, b = node("a"), node("b")
    costs = model(layers=10, layer=GB)
    even = predict(costs, [(a, 0, 5), (b, 5, 10)], streams=8)
    assert even.in_flight == 8
    assert even.aggregate_tokens_per_s == pytest.approx(1 / even.slowest_s)
    few = predict(costs, [(a, 0, 5), (b, 5, 10)], streams=1)
    assert few.in_flight == 2, "as many as there are stages"
    assert few.aggregate_tokens_per_s == pytest.approx(2 / few.token_s)


def test_two_shards_of_one_node_serve_no_more_than_one() -> None:
    a = node("a")
    costs = model(layers=10, layer=GB)
    one = predict(costs, [(a, 0, 10)], streams=4)
    two = predict(costs, [(a, 0, 5), (a, 5, 10)], streams=4)
    assert two.aggregate_tokens_per_s < one.aggregate_tokens_per_s


def test_efficiency_is_a_share() -> None:
    assert 0.5 < EFFICIENCY < 1
