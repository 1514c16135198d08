from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.plan import make_plan
from ringleader.cluster.requests import Request
from ringleader.cluster.rings import Ring
from ringleader.cluster.rollout import COOL_DOWN_S, Rollout
from ringleader.errors import ModelFault, RingLost
from ringleader.values import ModelId, RequestId
from tests.unit.cluster.builders import WISH, model, node

STANDING = m.RingWanted(model(), m.PlanWish(1000, shards=2))
REQUEST = Request(RequestId("r"), model(), WISH, 100.0, 0.0)


def test_the_standing_wish_is_tried_before_the_request_s_own() -> None:
    rollout = Rollout(ModelId("tiny"))
    assert [each.wish for each in rollout.wishes(REQUEST)] == [WISH]
    rollout.want(STANDING, 0.0)
    assert [each.wish for each in rollout.wishes(REQUEST)] == [STANDING.wish, WISH]
    assert [each.wish for each in rollout.wishes(None)] == [STANDING.wish]


def test_a_refused_standing_wish_is_tried_again_later_and_later() -> None:
    rollout = Rollout(ModelId("tiny"))
    assert not rollout.due(5.0)
    rollout.want(STANDING, 5.0)
    assert rollout.due(5.0)
    rollout.refused("no room", 5.0)
    assert not rollout.due(5.4)
    assert rollout.due(5.5)
    rollout.refused("no room", 5.5)
    assert not rollout.due(6.4)
    assert rollout.due(6.5)


def test_a_ring_that_was_given_up_rests_until_the_cool_down_or_a_change() -> None:
    rollout = Rollout(ModelId("tiny"))
    ring = Ring(make_plan(model(), [node("a")], WISH), {}, 0.0)
    ring.failures, ring.reason = 5, "of a missing file"
    rollout.give_up(ring, 10.0)
    assert rollout.state == "resting"
    assert "5 tries in a row failed, the last because of a missing file" in str(rollout.rest())
    rollout.tick(10.0 + COOL_DOWN_S - 1)
    assert rollout.state == "resting"
    rollout.tick(10.0 + COOL_DOWN_S)
    assert rollout.state == "idle"
    rollout.give_up(ring, 100.0)
    rollout.try_soon(101.0)
    assert rollout.state == "idle"


def test_a_model_at_fault_is_not_tried_again_by_itself_but_by_a_new_node_or_wish() -> None:
    rollout = Rollout(ModelId("tiny"))
    rollout.want(STANDING, 0.0)
    ring = Ring(make_plan(model(), [node("a")], WISH), {}, 0.0)
    ring.failures, ring.reason, ring.at_fault = 1, "tensor x is missing", True
    rollout.give_up(ring, 10.0)
    assert isinstance(rollout.rest(), ModelFault)
    assert "tensor x is missing" in str(rollout.rest())
    assert "1 tries" not in str(rollout.rest())
    rollout.tick(10.0 + COOL_DOWN_S)
    assert rollout.state == "idle", "a request may try"
    assert not rollout.due(10_000.0)
    rollout.try_soon(10_000.0)
    assert rollout.due(10_000.0)


def test_what_failed_by_chance_is_tried_again_by_itself_and_is_a_lost_ring_until_then() -> None:
    rollout = Rollout(ModelId("tiny"))
    rollout.want(STANDING, 0.0)
    ring = Ring(make_plan(model(), [node("a")], WISH), {}, 0.0)
    rollout.give_up(ring, 10.0)
    assert isinstance(rollout.rest(), RingLost)
    rollout.tick(10.0 + COOL_DOWN_S)
    assert rollout.due(10.0 + COOL_DOWN_S)
