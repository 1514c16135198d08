"""The batcher's laws, held by random rings: requests come and go, frames return, nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.errors import Busy, ContextTooLong
from ringleader.shard.batcher import PASSED_MAX, Batcher, Limits, Returned, Turn
from ringleader.shard.waiting import PASSERS_MAX, QUEUE_MAX
from tests.unit.shard.lawful_ring import Ring, answering, at_random, back, drain, only, passes, prompt, spec

LIMITS = Limits(chunk_tokens=4, flight_max=3, slots_max=3, kv_tokens_max=60)


ALL_LIMITS = st.builds(
    Limits,
    chunk_tokens=st.integers(1, 6),
    flight_max=st.integers(1, 4),
    slots_max=st.integers(1, 4),
    kv_tokens_max=st.integers(10, 120),
    kv_step=st.sampled_from([1, 1, 4]),
    kv_ahead=st.integers(0, 20),
    kv_slot=st.sampled_from([0, 0, 7]),
    ride=st.sampled_from(["alone", "even", "ragged"]),
    machines=st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(limits=ALL_LIMITS, seed=st.integers(0, 2**32))
def test_the_laws_hold_whatever_comes_in_whatever_order(limits: Limits, seed: int) -> None:
    ring = Ring(limits)
    at_random(ring, seed, 300)
    drain(ring)


@settings(max_examples=80, deadline=None)
@given(
    limits=ALL_LIMITS,
    chunk_tokens=st.integers(10, 80),
    room=st.integers(150, 800),
    state_tokens=st.sampled_from([0, 0, 1, 40]),
    seed=st.integers(0, 2**32),
)
def test_the_laws_hold_where_prompts_begin_alike(
    limits: Limits, chunk_tokens: int, room: int, state_tokens: int, seed: int
) -> None:
    ring = Ring(replace(limits, chunk_tokens=chunk_tokens, kv_tokens_max=room, state_tokens=state_tokens), shares=True)
    at_random(ring, seed, 200)
    drain(ring)


def test_the_random_rings_have_batches_that_change() -> None:
    ring = Ring(Limits(chunk_tokens=6, flight_max=2, slots_max=6, ride="ragged", machines=(0, 1)))
    at_random(ring, 1, 300)
    assert len(ring.rows) > 1
    assert ring.batches > 10
    assert ring.drafts > 30


def test_the_random_rings_begin_from_what_is_kept_and_drop_some() -> None:
    for state_tokens in (0, 40):
        limits = Limits(chunk_tokens=40, flight_max=2, kv_tokens_max=900, state_tokens=state_tokens)
        ring = Ring(limits, shares=True)
        at_random(ring, 1, 400)
        drain(ring)
        assert ring.kept.saved > 0
        assert ring.kept.dropped > 5


RAGGED = Limits(ride="ragged")


def test_answers_share_a_pass_and_a_lone_one_is_sent_alone() -> None:
    batcher = Batcher(RAGGED)
    slots = answering(batcher, 3, 5, 2)
    (sent,) = passes(batcher, 1)
    assert sent.batch
    assert {turn.slot for turn in sent.turns} == set(slots)
    batcher.cancel("a0")
    batcher.cancel("a1")
    (sent,) = passes(batcher, 1)
    assert (sent.batch, [turn.slot for turn in sent.turns]) == (0, [slots[2]])


def test_a_newcomer_joins_at_the_end_and_who_ends_leaves() -> None:
    batcher = Batcher(RAGGED)
    first = answering(batcher, 3, 3)
    batcher.submit("new", prompt(2), spec(2, 50))
    newcomer = next(turn.slot for sent in passes(batcher, 3) for turn in sent.turns if turn.slot not in first)
    (sent,) = passes(batcher, 1)
    assert [turn.slot for turn in sent.turns] == [*first, newcomer]
    batcher.cancel("a0")
    (sent,) = passes(batcher, 1)
    assert [turn.slot for turn in sent.turns] == [first[1], newcomer]


def test_slots_that_cannot_share_take_turns() -> None:
    batcher = Batcher(Limits(ride="alone"))
    slots = answering(batcher, 3, 3, 3)
    assert sorted(turn.slot for sent in passes(batcher, 6) for turn in sent.turns) == sorted(slots * 2)


def test_one_chunk_of_a_prompt_goes_between_two_passes_of_a_batch() -> None:
    batcher = Batcher(replace(RAGGED, chunk_tokens=4))
    answering(batcher, 2, 2)
    batcher.submit("long", prompt(40), spec(40, 5))
    kinds = ["batch" if sent.batch else "chunk" for sent in passes(batcher, 18)]
    assert kinds == ["batch", "chunk"] * 9 or kinds == ["chunk", "batch"] * 9


def test_a_pass_says_whether_someone_is_about_to_join() -> None:
    batcher = Batcher(RAGGED)
    first = answering(batcher, 3, 3)
    assert [sent.joined for sent in passes(batcher, 2)] == [False, False]
    for name in ("new", "newer"):
        batcher.submit(name, prompt(2), spec(2, 50))
    assert [(len(sent.turns), sent.joined) for sent in passes(batcher, 4)] == [
        (1, True),
        (len(first) + 1, True),
        (1, True),
        (len(first) + 2, False),
    ]


def test_who_has_room_passes_one_that_has_none_but_not_for_ever() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=300, kv_ahead=8))
    answering(batcher, 100)
    assert batcher.submit("large", prompt(200), spec(200, 20))
    begun = []
    for number in range(PASSERS_MAX + 3):
        assert batcher.submit(f"small {number}", prompt(4), spec(4, 5))
        begun.append(len({turn.slot for sent in passes(batcher, 2) for turn in sent.turns}) > 1)
        batcher.cancel(f"small {number}")
    assert begun == [True] * PASSERS_MAX + [False] * 3
    assert batcher.waiting == 1, "the large one waits for memory"
    batcher.cancel("a0")
    assert len(passes(batcher, 1)[0].turns[0].tokens) > 4, "and has it as soon as there is some"


@pytest.mark.parametrize("machines, most", [((0, 0), 1), ((0, 1), 2)])
def test_stages_of_one_machine_do_not_compute_a_chunk_beside_an_answer_s_pass(
    machines: tuple[int, ...], most: int
) -> None:
    batcher = Batcher(replace(RAGGED, flight_max=2, machines=machines))
    answering(batcher, 3)
    batcher.submit("long", prompt(40), spec(40, 5))
    flights = []
    for _ in range(6):
        while (sent := batcher.next_pass()) is not None:
            flights.append(sent)
        assert len(flights) == most
        first = flights.pop(0)
        batcher.returned([Returned(turn.slot, (5,) if turn.sample else ()) for turn in first.turns])


def test_stages_on_machines_of_their_own_get_a_batch_each() -> None:
    for machines, expected in (((0, 1), 2), ((0, 0), 1)):
        batcher = Batcher(Limits(flight_max=2, ride="ragged", machines=machines))
        slots = answering(batcher, *[3] * 6)
        in_ring = [sent for sent in (batcher.next_pass(), batcher.next_pass()) if sent]
        assert len(in_ring) == expected
        assert sorted(turn.slot for sent in in_ring for turn in sent.turns) == sorted(slots)
        assert {len(sent.turns) for sent in in_ring} == {6 // expected}


def test_followers_of_several_rows_ride_together_and_a_single_row_s_do_not_slow_the_others() -> None:
    batcher = Batcher(RAGGED)
    slots = answering(batcher, *[3] * 8)
    sent = batcher.next_pass()
    assert sent is not None and sent.width == 1
    batcher.returned([Returned(slot, (1, 2, 3, 4, 5)) for slot in [turn.slot for turn in sent.turns]])
    sent = batcher.next_pass()
    assert sent is not None and [len(turn.tokens) for turn in sent.turns] == [5] * 8
    one = slots[0]
    batcher.returned([Returned(turn.slot, (1,) if turn.slot != one else tuple(range(8))) for turn in sent.turns])
    sent = batcher.next_pass()
    assert sent is not None and sent.width == 1, "seven rows of padding cost more than seven passes that go anyway"
    assert [turn.sample for turn in sent.turns] == [turn.slot != one for turn in sent.turns]


def test_a_running_answer_is_not_held_up_by_short_requests_that_keep_coming() -> None:
    batcher = Batcher(Limits(slots_max=2, flight_max=1))
    assert batcher.submit("long", prompt(1), spec(1))
    long = only(batcher)
    back(batcher, long, 7)
    turns = []
    for number in range(10):
        assert batcher.submit(f"short {number}", prompt(1), spec(1))
        turn = only(batcher)
        turns.append(turn.slot)
        back(batcher, turn, 7, ends=turn.slot != long.slot)
    assert turns.count(long.slot) == 5


def test_of_prompts_that_come_together_the_first_is_answered_before_the_last_is_computed() -> None:
    batcher = Batcher(replace(LIMITS, slots_max=8, kv_tokens_max=1000))
    for number in range(4):
        batcher.submit(f"{number}", tuple(range(100 * number, 100 * number + 16)), spec(16))
    sampled = [turn.slot for _ in range(16) if (turn := returned(batcher, ends=True)).sample]
    assert sampled == [1, 2, 3, 4], "one after the other"


def test_a_short_prompt_passes_a_long_one_which_still_goes_on_however_many_come() -> None:
    batcher = Batcher(replace(LIMITS, slots_max=2, kv_tokens_max=1000))
    batcher.submit("long", prompt(64), spec(64))
    long = returned(batcher)
    turns = []
    for number in range(3 * (PASSED_MAX + 1)):
        batcher.submit(f"short {number}", tuple(range(1000 + number, 1004 + number)), spec(4))
        turns.append(returned(batcher, ends=True).slot)
    assert turns.count(long.slot) == 3
    assert turns[:PASSED_MAX].count(long.slot) == 0


def test_a_short_prompt_does_not_stand_behind_many_long_ones_that_are_all_overdue() -> None:
    batcher = Batcher(replace(LIMITS, slots_max=20, kv_tokens_max=10_000))
    for number in range(12):
        assert batcher.submit(f"long {number}", tuple(range(1000 * number, 1000 * number + 200)), spec(200))
    longs = [returned(batcher).slot for _ in range(60)]
    assert set(longs[-24:]) == set(longs), "each of them goes on"
    batcher.submit("short", tuple(range(50_000, 50_012)), spec(12))
    turns = [returned(batcher).slot for _ in range(6)]
    assert len([slot for slot in turns if slot not in longs]) == 3, "three chunks, every other one of all"


def test_priority_goes_before_length() -> None:
    batcher = Batcher(replace(LIMITS, slots_max=2, kv_tokens_max=1000))
    batcher.submit("short", prompt(4), spec(4), priority=1)
    batcher.submit("urgent", tuple(range(100, 112)), spec(12), priority=0)
    assert [returned(batcher, ends=True).slot for _ in range(4)] == [1, 1, 1, 2]


def test_what_each_shard_computed_for_a_request_is_told_at_its_end() -> None:
    batcher = Batcher(replace(RAGGED, chunk_tokens=4))
    batcher.submit("a", prompt(6), spec(6, 5))
    told = []
    for tokens, finish in (((), ""), ((1,), ""), ((2,), "stop")):
        sent = batcher.next_pass()
        assert sent is not None
        (news,) = batcher.returned([Returned(turn.slot, tokens, finish) for turn in sent.turns], (0.5, 0.25))
        assert news is not None
        told.append(news.shard_s)
    assert told == [(), (), (1.5, 0.75)]


def returned(batcher: Batcher, *, ends: bool = False) -> Turn:
    """The next chunk, back at once; a sampling one gives a token, which may be the answer's last."""
    turn = only(batcher)
    back(batcher, turn, *([7] if turn.sample else []), ends=ends and turn.sample)
    return turn


def test_a_prompt_is_cut_into_chunks_and_only_the_last_one_samples() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(10), spec(10))
    turns = [only(batcher) for _ in range(3)]
    assert [(turn.position, len(turn.tokens), turn.sample) for turn in turns] == [
        (0, 4, False),
        (4, 4, False),
        (8, 2, True),
    ]


def test_progress_counts_passes_and_prompt_tokens() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(6), spec(6))
    first, second = only(batcher), only(batcher)
    chunk = back(batcher, first)
    assert chunk and (chunk.request, chunk.prompt_done, chunk.ended) == ("a", 4, False)
    sampled = back(batcher, second, 1, 2, 3)
    assert sampled and (sampled.passes, sampled.prompt_done) == (2, 6)
    followers = only(batcher)
    assert followers.tokens == (1, 2, 3), "a sampled token and its followers go in one frame"
    last = back(batcher, followers, 9, ends=True)
    assert last and (last.passes, last.prompt_done, last.ended) == (3, 6, True)


def test_a_frame_that_comes_back_out_of_order_is_an_error() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(1), spec(1))
    batcher.submit("b", prompt(1), spec(1))
    first, second = only(batcher), only(batcher)
    assert first.slot != second.slot
    with pytest.raises(ValueError, match="out of order"):
        back(batcher, second, 1)


def test_a_full_queue_an_empty_prompt_and_a_taken_name_are_refused() -> None:
    batcher = Batcher(LIMITS)
    assert not batcher.submit("empty", (), spec(0))
    for number in range(QUEUE_MAX):
        assert batcher.submit(f"r{number}", prompt(1), spec(1))
    with pytest.raises(Busy, match=str(QUEUE_MAX)):
        batcher.submit("one more", prompt(1), spec(1))
    assert batcher.next_pass() is not None
    assert not batcher.submit("r0", prompt(1), spec(1)), "the name runs"
    assert batcher.submit("one more", prompt(1), spec(1)), "slots made room in the queue"


def test_cancelling_everything_releases_every_slot_and_forgets_the_queue() -> None:
    batcher = Batcher(LIMITS)
    for name in "abcde":
        batcher.submit(name, prompt(3), spec(3))
    turns = [only(batcher) for _ in range(3)]
    batcher.cancel_all()
    assert sorted(batcher.take_orders().released) == sorted(turn.slot for turn in turns)
    assert batcher.live == 0
    for turn in turns:
        assert back(batcher, turn, 1) is None
    assert batcher.next_pass() is None


def test_a_request_that_could_never_fit_is_refused_with_the_numbers() -> None:
    batcher = Batcher(LIMITS)
    with pytest.raises(ContextTooLong, match=r"55 tokens of prompt and 6 of answer.* 60 tokens"):
        batcher.submit("huge", prompt(55), spec(55, 6))
    assert batcher.submit("just fits", prompt(55), spec(55, 5))


# ---------------------------------------------------------------- drafts


def guessing(batcher: Batcher, drafts: tuple[int, ...]) -> Turn:
    """A request whose first token came back with drafts; its next turn."""
    batcher.submit("a", prompt(3), spec(3, 20_000))
    first = only(batcher)
    batcher.returned([Returned(first.slot, (7,), "", drafts)])
    return only(batcher)


def test_drafts_ride_behind_what_is_known_and_those_that_are_right_are_not_sent_again() -> None:
    batcher = Batcher(Limits())
    turn = guessing(batcher, (8, 9, 10))
    assert (turn.position, turn.tokens, turn.drafts) == (3, (7, 8, 9, 10), 3)
    (news,) = batcher.returned([Returned(turn.slot, (8, 9, 77, 78))])
    assert news is not None
    assert (news.drafted, news.accepted) == (3, 2)
    following = only(batcher)
    assert (following.position, following.tokens, following.drafts) == (6, (77, 78), 0)


def test_what_was_drawn_last_is_sent_even_if_it_was_guessed() -> None:
    batcher = Batcher(Limits())
    turn = guessing(batcher, (8, 9, 10))
    batcher.returned([Returned(turn.slot, (8, 9))])  # as of a tail that looked at two of them
    assert only(batcher).tokens == (9,)


def test_drafts_that_are_always_wrong_soon_stay_away_and_come_back_seldom() -> None:
    batcher = Batcher(Limits())
    turn = guessing(batcher, (1,) * 9)
    rode = []
    for _ in range(300):
        batcher.returned([Returned(turn.slot, (2,), "", (1,) * 9)])
        turn = only(batcher)
        rode.append(turn.drafts)
    assert 0 < sum(rode[50:]) < 50
    for _ in range(300):
        batcher.returned([Returned(turn.slot, (*turn.guesses, 2), "", (1,) * 9)])
        turn = only(batcher)
        rode.append(turn.drafts)
    assert max(rode[-9:]) == 9, "and what is right by now is believed again"


def test_drafts_take_no_memory_that_the_answer_was_not_given() -> None:
    batcher = Batcher(Limits(kv_ahead=4))
    turn = guessing(batcher, (8,) * 30)
    assert (turn.position, turn.drafts) == (3, 3), "of the seven tokens it may hold it has four"


def test_a_pass_before_which_rows_moved_tells_nothing_of_what_a_token_costs() -> None:
    batcher = Batcher(RAGGED)
    slots = answering(batcher, 3, 3)
    widths = []
    for _ in range(60):
        sent = batcher.next_pass()
        assert sent is not None
        assert {turn.slot for turn in sent.turns} == set(slots)
        widths.append(sent.width)
        # One row's guesses are right, the other's wrong: the next pass moves rows, and that takes for ever.
        right, wrong = sent.turns
        rows = [Returned(right.slot, (*right.guesses, 7), "", (5,) * 6), Returned(wrong.slot, (7,), "", (5,) * 6)]
        moved = len(widths) > 1 and widths[-2] > 1
        batcher.returned(rows, (0.01 + 0.002 * sent.width + (1.0 if moved else 0.0),))
    assert sum(width > 1 for width in widths[10:]) < 10
