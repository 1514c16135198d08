from __future__ import annotations

from dataclasses import replace

from ringleader.cluster.messages import PlanWish
from ringleader.cluster.moving import GAIN_MIN, bytes_to_load, worth_moving
from ringleader.cluster.plan import Plan, Predicted, make_plan
from tests.unit.cluster.builders import GB, model, node

NODES = [node("a", 100 * GB), node("b", 100 * GB)]


def plan(*layers: tuple[str, int, int], context: int = 1000, layer: int = GB) -> Plan:
    return make_plan(model(layers=10, layer=layer), NODES, PlanWish(context, layers=layers))


def at(made: Plan, tokens_per_s: float) -> Plan:
    return replace(made, predicted=Predicted(tokens_per_s, tokens_per_s, 1, (1 / tokens_per_s,), ()))


OLD, NEW = plan(("a", 0, 10)), plan(("a", 0, 6), ("b", 6, 10))


def test_a_gain_below_the_limit_is_not_worth_it_and_one_above_is() -> None:
    assert not worth_moving(at(OLD, 10.0), at(NEW, 10.0 * GAIN_MIN - 0.1))
    assert worth_moving(at(OLD, 10.0), at(NEW, 10.0 * GAIN_MIN + 0.1))


def test_more_context_or_more_streams_are_worth_it_whatever_the_speed() -> None:
    assert worth_moving(at(OLD, 10.0), at(replace(NEW, context_tokens=2000), 5.0))
    assert worth_moving(at(OLD, 10.0), at(replace(NEW, streams=2), 5.0))


def test_less_context_is_never_worth_it() -> None:
    assert not worth_moving(at(OLD, 10.0), at(replace(NEW, context_tokens=500), 50.0))


def test_the_same_layers_on_the_same_nodes_are_no_move() -> None:
    assert not worth_moving(at(OLD, 10.0), at(replace(OLD, serial=7), 50.0))


def test_what_must_be_loaded_has_to_pay_within_an_hour() -> None:
    heavy_old, heavy_new = plan(("a", 0, 10), layer=9 * GB), plan(("b", 0, 10), layer=9 * GB)
    assert worth_moving(at(heavy_old, 10.0), at(heavy_new, 11.6)), "90 s of loading"
    old, new = (
        replace(p, stages=tuple(replace(s, weight_bytes=1000 * GB) for s in p.stages)) for p in (heavy_old, heavy_new)
    )
    assert not worth_moving(at(old, 10.0), at(new, 11.6)), "1000 s of loading, 500 s won"
    assert worth_moving(at(old, 10.0), at(new, 20.0))


def test_the_old_plan_counts_by_the_figures_of_today_where_they_are_known() -> None:
    now = at(OLD, 5.0).predicted
    assert worth_moving(at(OLD, 10.0), at(NEW, 10.0), old_now=now)
    assert not worth_moving(replace(OLD, predicted=None), at(NEW, 100.0)), "nothing to compare with"


def test_by_throughput_the_aggregate_counts() -> None:
    wide = replace(NEW, predicted=Predicted(10.0, 20.0, 2, (0.05, 0.05), (0.0, 0.0)))
    assert not worth_moving(at(OLD, 10.0), wide)
    assert worth_moving(at(OLD, 10.0), wide, objective="throughput")


def test_only_layers_that_a_node_does_not_hold_yet_are_loaded() -> None:
    assert bytes_to_load(OLD, NEW) == {"b-id": 4 * GB}
    assert bytes_to_load(NEW, OLD) == {"a-id": 4 * GB}
    assert bytes_to_load(OLD, plan(("a", 0, 3), ("a", 3, 10))) == {}
