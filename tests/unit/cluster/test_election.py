from __future__ import annotations

from ringleader.cluster import messages as m
from ringleader.cluster.election import TURN_S, Election
from ringleader.values import NodeId
from tests.unit.cluster.words_of import beat

ME, B, Z = NodeId("me-id"), NodeId("b-id"), NodeId("z-id")


def looking(number: int = 0, since: float = 0.0) -> Election:
    return Election(ME, number, since)


def leading(number: int = 1) -> Election:
    election = looking(number - 1)
    election.settle([], 10.0)
    assert election.term == m.Term(number, ME)
    return election


def leads(name: str, number: int) -> m.Beat:
    return beat(name, "me", follows=m.Term(number, NodeId(f"{name}-id")))


def test_nothing_is_claimed_before_listening_is_over_and_the_turn_has_come() -> None:
    election = looking(since=1.5)
    election.settle([], 1.5 + TURN_S - 0.01)
    assert election.term is None
    election.settle([], 1.5 + TURN_S)
    assert election.leads


def test_looking_nodes_claim_by_their_ids_the_greatest_first() -> None:
    election = looking()
    others = [beat("z", "me"), beat("b", "me")]
    election.settle(others, TURN_S)
    assert not election.leads
    election.settle(others, 2 * TURN_S)
    assert election.leads


def test_a_claim_is_above_every_number_that_was_seen_or_persisted() -> None:
    election = looking(number=4)
    election.see(7)
    election.see(2)
    election.settle([], 10.0)
    assert election.term == election.fence == m.Term(8, ME)


def test_the_highest_master_is_followed_but_none_below_the_fence() -> None:
    election = looking()
    election.settle([leads("b", 3), leads("z", 2)], 0.1)
    assert election.term == election.fence == m.Term(3, B)
    election.settle([leads("z", 2)], 0.2)
    assert election.term is None
    assert election.fence == m.Term(3, B)
    election.settle([leads("z", 3)], 0.3)
    assert election.term == m.Term(3, Z), "a pair: the node breaks the tie"


def test_a_restart_keeps_the_fence_of_the_persisted_number() -> None:
    election = looking(number=3)
    election.settle([leads("b", 2)], 0.1)
    assert election.term is None
    election.settle([leads("b", 3)], 0.1)
    assert election.term == m.Term(3, B)


def test_a_master_stays_until_a_higher_term_is_heard() -> None:
    election = leading(5)
    election.settle([leads("z", 4)], 11.0)
    assert election.leads
    election.settle([leads("b", 6)], 12.0)
    assert election.term == m.Term(6, B)


def test_a_master_that_a_looking_node_cannot_obey_goes_on_in_a_later_term() -> None:
    election = leading(5)
    election.see(9)
    election.settle([beat("b", "me", follows=m.Term(9, Z))], 11.0)
    assert election.term == m.Term(5, ME), "it follows another: nothing to be done"
    election.settle([beat("b", "me", fence=m.Term(9, Z))], 12.0)
    assert election.term == m.Term(10, ME)


def test_nobody_claims_while_a_node_that_is_heard_follows_a_master() -> None:
    election = looking()
    election.settle([beat("b", "me", follows=m.Term(1, Z))], 100.0)
    assert election.term is None
    election.settle([beat("b", "me")], 100.0)
    assert election.leads


def test_a_standstill_of_the_process_is_no_waiting() -> None:
    election = looking()
    election.wait(50.0)
    election.settle([], 50.0)
    assert election.term is None
