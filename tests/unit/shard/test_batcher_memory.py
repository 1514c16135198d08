"""Memory runs out and priorities differ: who gives its slot up, and that nothing of an answer is lost."""

from __future__ import annotations

from dataclasses import replace

from ringleader.shard.batcher import Batcher, Limits
from ringleader.shard.waiting import YIELDS
from tests.unit.shard.lawful_ring import Ring, answering, at_random, back, drain, only, passes, prompt, spec

RAGGED = Limits(ride="ragged")


def test_the_random_rings_run_out_of_memory_and_give_slots_up() -> None:
    ring = Ring(Limits(chunk_tokens=6, flight_max=2, slots_max=4, kv_tokens_max=70, kv_ahead=3, ride="ragged"))
    at_random(ring, 3, 1500)
    drain(ring)
    assert sum(wanted.preempted for wanted in ring.asked.values()) > 1


def test_rows_that_would_be_padded_beyond_the_memory_take_turns() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=300))
    short, long = answering(batcher, 10, 90)  # 75 and 155 tokens reserved; together they would take 310
    sent = passes(batcher, 4)
    assert [each.batch for each in sent] == [0] * 4
    assert sorted(turn.slot for each in sent for turn in each.turns) == sorted([short, long] * 2)


def test_rows_part_before_anybody_gives_its_slot_up_for_padding() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=330, kv_ahead=4))
    short, long = answering(batcher, 10, 150, max_tokens=100)
    kinds = [each.batch for each in passes(batcher, 40)]
    assert kinds[0] and not kinds[-1]
    assert not batcher.take_orders().released
    assert {turn.slot for each in passes(batcher, 2) for turn in each.turns} == {short, long}


def test_requests_run_together_whose_longest_answers_would_not_fit_together() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=1000))
    assert len(answering(batcher, 10, 10, 10, 10, max_tokens=900)) == 4


def test_when_memory_runs_out_the_last_comer_waits_and_goes_on_where_it_was() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=120, kv_ahead=4))
    first, second = answering(batcher, 10, 10, max_tokens=100)
    sent = passes(batcher, 200)
    released = next(at for at, each in enumerate(sent) if second not in [turn.slot for turn in each.turns])
    resumed = [turn for each in sent for turn in each.turns if turn.spec is not None]
    assert not resumed, "there is no room for it while the first goes on"
    assert released < 60
    assert all(turn.slot == first for each in sent[released:] for turn in each.turns)
    batcher.cancel("a0")
    turn = only(batcher)
    assert turn.spec is not None and set(turn.tokens) == {7}
    assert turn.begins_from and turn.position == 32, "of what it had computed, as much is kept as there was room for"
    assert turn.spec.resumed_tokens == turn.position + len(turn.tokens) - 10 > 40


def test_what_was_in_the_ring_when_a_slot_was_given_up_is_not_lost() -> None:
    batcher = Batcher(Limits(flight_max=2, kv_tokens_max=60, kv_ahead=0, ride="alone"))
    assert batcher.submit("a", prompt(28), spec(28, 30)) and batcher.submit("b", prompt(30), spec(30, 30))
    a, b = only(batcher), only(batcher)
    back(batcher, a, 1, 2, 3, 4)  # grows beyond what is left beside b, whose segment is still in the ring
    only(batcher)
    assert batcher.take_orders().released == (b.slot,)
    late = back(batcher, b, 9)
    assert late is not None and (late.request, late.ended) == ("b", False)
    assert batcher.cancel("a")
    again = only(batcher)
    assert again.tokens == (*prompt(30), 9)
    assert again.spec == replace(spec(30, 30), resumed_tokens=1)


def test_lower_priorities_are_begun_first_and_take_slots_from_higher_ones() -> None:
    batcher = Batcher(Limits(slots_max=1))
    batcher.submit("bulk", prompt(3), spec(3), 1)
    bulk = only(batcher)
    back(batcher, bulk, 7)
    batcher.submit("later bulk", prompt(4), spec(4), 1)
    batcher.submit("person", prompt(5), spec(5))
    person = only(batcher)
    assert person.tokens == prompt(5)
    assert batcher.take_orders().released == (bulk.slot,)
    back(batcher, person, 7, ends=True)
    assert only(batcher).tokens == (*prompt(3), 7), "who gave its slot up comes before who came later"


def test_a_request_of_high_priority_number_is_not_passed_for_ever() -> None:
    batcher = Batcher(Limits(slots_max=1))
    batcher.submit("running", prompt(1), spec(1))
    back(batcher, only(batcher), 7)
    batcher.submit("bulk", prompt(9), spec(9), 1)
    passed = 0
    for number in range(3 * YIELDS):
        batcher.submit(f"person {number}", prompt(1), spec(1))
        batcher.cancel("running" if number == 0 else f"person {number - 1}")
        turn = only(batcher)
        if turn.tokens == prompt(9):
            break
        passed += 1
        back(batcher, turn, 7)
    assert passed == YIELDS - 1


def test_a_request_of_the_same_priority_takes_no_slot() -> None:
    batcher = Batcher(Limits(slots_max=1))
    batcher.submit("a", prompt(3), spec(3))
    back(batcher, only(batcher), 7)
    batcher.submit("b", prompt(4), spec(4))
    assert only(batcher).position == 3
    assert not batcher.take_orders().released
