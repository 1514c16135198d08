from __future__ import annotations

from ringleader.cluster.membership import (
    ADDRESSES_MAX,
    FORGET_AFTER_S,
    LOST_AFTER_S,
    NUMBER_MAX,
    PEERS_MAX,
    SUSPECTED_FOR_S,
    Membership,
)
from ringleader.cluster.messages import Term
from ringleader.values import NodeId
from tests.unit.cluster.words_of import beat

ME, B = NodeId("me-id"), NodeId("b-id")


def hearing(now: float = 0.0) -> Membership:
    members = Membership(ME)
    assert members.hear(B, beat("b", "me"), now)
    return members


def heard(members: Membership, now: float) -> list[NodeId]:
    return [peer.node for peer in members.heard(now)]


def test_a_peer_is_heard_until_it_was_silent_for_long() -> None:
    members = hearing()
    assert heard(members, LOST_AFTER_S - 0.01) == [B]
    assert heard(members, LOST_AFTER_S) == []


def test_a_broken_stream_shortens_the_wait_and_a_beat_clears_it() -> None:
    members = hearing()
    members.suspect(B, "reset", 0.2)
    assert heard(members, 0.2 + SUSPECTED_FOR_S - 0.01) == [B]
    assert heard(members, 0.2 + SUSPECTED_FOR_S) == []
    assert members.hear(B, beat("b", count=2), 0.5)
    assert heard(members, 0.3 + SUSPECTED_FOR_S) == [B]


def test_late_repeated_and_borrowed_beats_change_nothing() -> None:
    members = hearing()
    assert not members.hear(B, beat("b"), 1.0)
    assert not members.hear(B, beat("b", count=0), 1.0)
    assert not members.hear(B, beat("c", count=9), 1.0), "the sender's own only"
    assert not members.hear(ME, beat("me", count=9), 1.0)
    assert not members.hear(B, beat("b", count=9, fence=Term(NUMBER_MAX + 1, B)), 1.0), "nobody would get past it"
    assert heard(members, LOST_AFTER_S) == []


def test_a_new_process_counts_from_the_start_and_late_words_of_the_old_one_change_nothing() -> None:
    members = hearing()
    assert members.hear(B, beat("b", count=50), 1.0)
    assert members.hear(B, beat("b", incarnation=2), 1.1)
    assert not members.hear(B, beat("b", count=51), 1.2)


def test_a_goodbye_is_the_end_at_once() -> None:
    members = hearing()
    assert members.hear(B, beat("b", "me", count=2, leaving=True), 0.1)
    assert heard(members, 0.1) == []
    peer = members.peer(B)
    assert peer is not None
    assert peer.reason == "it was stopped"


def test_only_those_that_hear_this_node_count_as_mutual() -> None:
    members = hearing()
    members.hear(NodeId("c-id"), beat("c", "b"), 0.0)
    assert [each.profile.name for each in members.mutual(0.1)] == ["b"]


def test_a_sleep_makes_all_stale_and_a_standstill_does_not() -> None:
    members = hearing()
    members.shift(30.0)
    assert heard(members, 30.5) == [B]
    members.forget_heard()
    assert heard(members, 30.5) == []


def test_the_table_is_bounded_and_forgets_who_was_silent_for_longest() -> None:
    members = Membership(ME)
    for number in range(PEERS_MAX):
        assert members.hear(NodeId(f"{number}-id"), beat(str(number)), 0.0)
    assert not members.hear(B, beat("b"), 1.0), "all of them may live"
    assert members.hear(B, beat("b"), FORGET_AFTER_S)
    assert len(members.peers()) == PEERS_MAX
    fresh = members.learn(B, [f"h:{port}" for port in range(20)], 0.0)
    assert len(fresh) == 20
    peer = members.peer(B)
    assert peer is not None
    assert len(peer.addresses) == ADDRESSES_MAX
