from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.cluster.snapshot import ClusterSnapshot
from ringleader.errors import MasterMoved
from ringleader.values import NodeId, PlanHash, RequestId
from tests.unit.cluster.builders import WISH, arrival, model, node, of_kind
from tests.unit.cluster.bus import Bus

A, B, C = NodeId("a-id"), NodeId("b-id"), NodeId("c-id")
TWO = m.PlanWish(1000, shards=2)


def formed(*names: str) -> Bus:
    bus = Bus(*names)
    bus.run(2.5)
    assert len(bus.leaders()) == 1
    assert len(bus.follow()) == 1
    return bus


def serving(bus: Bus, wish: m.PlanWish = TWO, asked_of: NodeId = A) -> PlanHash:
    bus.tell(asked_of, m.RingWanted(model(), wish))
    bus.until(lambda: any(ring.state == "serving" for ring in snapshot(bus).rings), 3.0)
    plan = snapshot(bus).rings[0].plan
    assert plan is not None
    return plan


def snapshot(bus: Bus) -> ClusterSnapshot:
    """Of the one that leads."""
    (leader,) = bus.leaders()
    return bus.members[leader].snapshot()


def test_a_node_that_is_alone_leads_after_it_has_listened() -> None:
    bus = Bus("a")
    assert bus.until(lambda: bus.leaders() == [A], 2.0) >= 1.5
    assert [e for e in bus.effects[A] if not isinstance(e, m.Tell)] == [
        m.PersistTerm(1),
        m.FollowMaster(m.Term(1, A)),
    ]


def test_nodes_that_start_together_agree_on_one_master() -> None:
    bus = formed("a", "b", "c")
    assert bus.follow() == {m.Term(1, C)}
    assert [row.name for row in snapshot(bus).nodes] == ["c", "a", "b"]


def test_a_node_that_comes_later_follows_the_master_that_is_there() -> None:
    bus = Bus("a", "z")
    late = bus.members.pop(NodeId("z-id"))
    bus.run(2.5)
    bus.members[NodeId("z-id")] = late
    bus.run(1.0)
    assert bus.leaders() == [A], "sticky: a greater name is no reason"
    assert bus.follow() == {m.Term(1, A)}


def test_a_new_master_is_there_within_three_seconds_of_a_death_that_no_socket_tells() -> None:
    bus = formed("a", "b", "c")
    bus.kill(C)
    bus.until(lambda: bus.leaders() == [B] and bus.follow() == {m.Term(2, B)}, 3.0)


def test_a_broken_stream_makes_it_quicker_and_a_beat_clears_the_suspicion() -> None:
    bus = formed("a", "b", "c")
    bus.tell(A, m.PeerDown(C, "reset"))
    bus.run(3.0)
    assert bus.follow() == {m.Term(1, C)}
    bus.kill(C)
    for other in (A, B):
        bus.tell(other, m.PeerDown(C, "reset"))
    assert bus.until(lambda: bus.leaders() == [B], 3.0) < 1.6


def test_a_node_that_is_told_to_stop_says_goodbye_and_nobody_waits_for_its_silence() -> None:
    bus = formed("a", "b", "c")
    bus.tell(C, m.StopAsked())
    bus.kill(C)
    assert bus.until(lambda: bus.leaders() == [B], 3.0) < 0.6
    assert "the master c was stopped; looking for another" in [told.text for told in of_kind(bus.effects[A], m.Tell)]


def test_a_shard_goes_to_another_node_by_an_order_and_its_ring_serves() -> None:
    bus = formed("a", "b")
    plan = serving(bus)
    assert [e.index for e in bus.of_kind(A, m.RunShard) if isinstance(e, m.RunShard)] == [1]
    (link,) = bus.of_kind(B, m.LinkRing)
    assert isinstance(link, m.LinkRing)
    assert (link.plan, link.term) == (plan, m.Term(1, B))
    assert link.epoch >> 32 == 1


def test_a_new_master_takes_the_ring_over_and_starts_and_stops_no_shard() -> None:
    bus = formed("a", "b", "c")
    plan = serving(bus, m.PlanWish(1000, layers=(("a", 0, 5), ("b", 5, 10))))
    before = [bus.of_kind(each, m.RunShard, m.EndShard) for each in (A, B)]
    bus.kill(C)
    bus.until(lambda: bus.leaders() == [B] and [ring.state for ring in snapshot(bus).rings] == ["serving"], 4.0)
    assert snapshot(bus).rings[0].plan == plan
    assert [bus.of_kind(each, m.RunShard, m.EndShard) for each in (A, B)] == before
    (link,) = bus.of_kind(B, m.LinkRing)
    assert isinstance(link, m.LinkRing)
    assert link.epoch >> 32 == 2, "linked anew, in an epoch of the new term"
    assert "ring_adopted" in bus.kinds_told(B)


def test_a_ring_that_lost_a_shard_with_the_master_is_placed_anew_and_the_other_shard_goes_on() -> None:
    bus = formed("a", "b")
    serving(bus, TWO)
    bus.tell(A, m.RingWanted(model(), TWO))
    bus.kill(B)
    bus.until(lambda: bus.leaders() == [A] and [ring.state for ring in snapshot(bus).rings] == ["serving"], 7.0)
    (renamed,) = bus.of_kind(A, m.RenameShard)
    assert isinstance(renamed, m.RenameShard)
    assert (renamed.index, renamed.new_index) == (1, 1)
    assert not bus.of_kind(A, m.EndShard)


def test_a_cut_makes_two_masters_and_healing_leaves_one_with_its_ring() -> None:
    bus = formed("a", "b", "c", "d")
    serving(bus, m.PlanWish(1000, layers=(("c", 0, 5), ("d", 5, 10))))
    bus.split(A, B)
    bus.run(4.0)
    assert sorted(bus.leaders()) == [B, NodeId("d-id")]
    bus.cut.clear()
    bus.run(3.0)
    assert bus.leaders() == [B], "the higher term stays"
    assert len(bus.follow()) == 1
    assert "stepped_down" in bus.kinds_told(NodeId("d-id"))
    assert [ring.state for ring in snapshot(bus).rings] == ["serving"]
    assert not bus.of_kind(C, m.EndShard), "its ring was taken over"


def test_a_one_way_cut_does_not_make_masters_flap() -> None:
    bus = formed("a", "b", "c")
    bus.cut = {(C, A)}
    bus.run(10.0)
    assert bus.leaders() == [C]
    assert bus.members[A].master is None
    bus.cut.clear()
    bus.run(1.0)
    assert bus.follow() == {m.Term(1, C)}


def test_a_master_leads_on_in_a_later_term_for_a_node_that_has_obeyed_one() -> None:
    bus = formed("a", "b")
    late = Member(node("c"), 1, persisted_term=9)
    bus.members[C], bus.effects[C] = late, []
    for there in (A, B):
        bus.tell(C, m.PeerUp(there))
        bus.tell(there, m.PeerUp(C))
    bus.run(1.0)
    assert bus.leaders() == [B]
    assert bus.follow() == {m.Term(10, B)}


def test_an_order_of_another_term_or_from_another_node_is_not_obeyed() -> None:
    bus = formed("a", "b", "c")
    plan = serving(bus, m.PlanWish(1000, layers=(("a", 0, 5), ("b", 5, 10))))
    for peer, term in ((C, m.Term(0, C)), (C, m.Term(7, C)), (B, m.Term(1, C)), (B, m.Term(1, B))):
        assert not of_kind(bus.members[A].step(m.Heard(peer, m.StopOrder(term, plan, 0)), bus.now), m.EndShard)
    obeyed = bus.members[A].step(m.Heard(C, m.StopOrder(m.Term(1, C), plan, 0)), bus.now)
    assert of_kind(obeyed, m.EndShard) == [m.EndShard(plan, 0)]


def test_a_request_at_a_node_that_does_not_lead_is_sent_on() -> None:
    bus = formed("a", "b")
    (failed,) = of_kind(bus.tell(A, arrival("r")), m.FailRequest)
    assert isinstance(failed, m.FailRequest)
    assert isinstance(failed.error, MasterMoved)
    assert failed.error.resumable
    assert "its master is b" in str(failed.error)


def test_stepping_down_ends_the_requests_so_that_they_go_on_elsewhere_and_lets_the_rings_go() -> None:
    bus = formed("a", "b")
    plan = serving(bus)
    bus.tell(B, arrival("r", wish=TWO))
    assert m.Dispatch(RequestId("r"), plan) in bus.effects[B]
    effects = bus.tell(B, m.Woke(60.0))
    (failed,) = of_kind(effects, m.FailRequest)
    assert isinstance(failed, m.FailRequest)
    assert isinstance(failed.error, MasterMoved)
    assert effects.index(failed) < effects.index(m.CloseRing(plan))
    assert m.Redial() in effects
    assert not of_kind(effects, m.EndShard)


def test_a_node_that_slept_listens_before_it_leads_again() -> None:
    bus = formed("a", "b")
    sleeper = bus.members.pop(B)
    bus.run(4.0)
    assert bus.leaders() == [A]
    bus.members[B] = sleeper
    bus.tell(B, m.Woke(4.0))
    bus.run(1.0)
    assert bus.leaders() == [A]
    assert bus.follow() == {m.Term(2, A)}


def test_a_node_that_is_alone_goes_on_after_a_sleep() -> None:
    bus = formed("a")
    bus.tell(A, m.Woke(3600.0))
    assert bus.leaders() == [A]


def test_a_process_that_stood_still_does_not_take_the_others_for_silent() -> None:
    bus = formed("a", "b")
    bus.now += 5.0
    bus.tell(B, m.Ticked())
    assert "node_lost" not in bus.kinds_told(B)


def test_a_wish_stands_while_the_node_of_its_operator_lives_whoever_is_master() -> None:
    bus = formed("a", "b")
    bus.tell(A, m.RingWanted(model(layers=400), WISH))
    bus.run(1.0)
    assert "short by" in snapshot(bus).rings[0].detail
    bus.kill(B)
    bus.run(5.0)
    assert bus.leaders() == [A]
    assert "short by" in snapshot(bus).rings[0].detail


def test_every_node_shows_the_cluster_from_what_it_hears() -> None:
    bus = formed("a", "b")
    plan = serving(bus)
    bus.run(0.5)
    shot = bus.members[A].snapshot()
    assert shot.term == m.Term(1, B)
    assert {(row.name, row.state) for row in shot.nodes} == {("a", "ok"), ("b", "master")}
    assert [(ring.plan, ring.state, len(ring.shards)) for ring in shot.rings] == [(plan, "serving", 2)]


def test_addresses_are_dialled_once_whether_found_or_told_by_others() -> None:
    member = Member(node("a"), 1)
    found = m.PeerFound(("b:1",), B)
    assert of_kind(member.step(found, 0.0), m.Dial) == [m.Dial(("b:1",), B)]
    assert not of_kind(member.step(found, 0.1), m.Dial)
    beat = m.Beat(
        replace(node("b"), control=("b:1", "b:2")), 1, 1, None, m.NO_TERM, (), contacts=(m.Contact(C, ("c:1",)),)
    )
    dialled = of_kind(member.step(m.Heard(B, beat), 0.2), m.Dial)
    assert dialled == [m.Dial(("b:2",), B), m.Dial(("c:1",), C)]
    assert of_kind(member.step(m.PeerFound(("x:1",)), 0.3), m.Dial) == [m.Dial(("x:1",), None)]


def test_two_nodes_of_one_name_are_told_so() -> None:
    bus = Bus("a", "b")
    bus.members[B] = Member(replace(node("b"), name="a"), 1)
    for here, there in ((A, B), (B, A)):
        bus.tell(here, m.PeerUp(there))
    bus.run(3.0)
    assert bus.kinds_told(A).count("name_taken") >= 1
    assert [row.name for row in snapshot(bus).nodes] == ["a", "a~a-id"]


TERMS = st.builds(m.Term, st.integers(0, 3), st.sampled_from([A, B, C]))
BEATS = st.builds(
    m.Beat,
    st.sampled_from([node("a"), node("b"), node("c")]),
    st.integers(0, 2),
    st.integers(0, 5),
    st.none() | TERMS,
    TERMS,
    st.lists(st.sampled_from([A, B, C]), max_size=3).map(tuple),
    leaving=st.booleans(),
)


def anything() -> st.SearchStrategy[m.Event]:
    peers = st.sampled_from([A, B, C])
    plan = st.sampled_from([PlanHash("x"), PlanHash("y")])
    return st.one_of(
        st.builds(m.Heard, peers, BEATS | st.builds(m.StopOrder, TERMS, plan, st.integers(0, 2))),
        st.builds(m.PeerFound, st.lists(st.text(max_size=2), max_size=2).map(tuple), st.none() | peers),
        st.builds(m.PeerUp, peers),
        st.builds(m.PeerDown, peers, st.text(max_size=2)),
        st.builds(m.Woke, st.floats(0, 100)),
        st.builds(m.NodeReported, peers, st.integers()),
        st.builds(m.ShardDied, plan, st.integers(0, 2), st.text(max_size=2)),
        st.builds(m.RingBroke, plan, st.integers(0, 9), st.text(max_size=2)),
        st.builds(arrival, st.sampled_from("rst")),
        st.just(m.Ticked()),
        st.just(m.Ticked()),
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(anything(), st.sampled_from([0.0, 0.1, 0.4, 2.0, 50.0])), max_size=40))
def test_no_sequence_of_events_makes_it_raise_or_lowers_its_fence(events: list[tuple[m.Event, float]]) -> None:
    member = Member(node("a"), 1)
    now, fence = 0.0, m.NO_TERM
    for event, pause in events:
        now += pause
        for effect in member.step(event, now):
            if isinstance(effect, m.Send) and isinstance(effect.word, m.Beat):
                assert effect.word.fence >= fence
                fence = effect.word.fence
        assert member.leads == (member.master is not None and member.master.node == A)
        member.snapshot()
