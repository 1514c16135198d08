"""The batcher's laws, held by random rings: requests come and go, frames return, nobody waits for ever."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.shard.batcher import Batcher, Limits, Progress, Returned, Segments, Turn
from ringleader.shard.waiting import QUEUE_MAX
from ringleader.values import Sampling, SlotSpec

LIMITS = Limits(chunk_tokens=4, flight_max=3, slots_max=3, kv_tokens_max=60)


def spec(prompt_tokens: int, max_tokens: int = 10) -> SlotSpec:
    return SlotSpec(Sampling(seed=0), max_tokens=max_tokens, prompt_tokens=prompt_tokens)


def prompt(length: int) -> tuple[int, ...]:
    return tuple(range(length))


@dataclass
class Sequence:
    """What the outside knows of one slot: all tokens that it should send, and how many it sent."""

    owed: list[int]
    reserved: int
    sent: int = 0
    sampling: bool = False
    flying: int = 0  # its segments in the ring
    answering: bool = False
    waited: int = 0

    @property
    def ready(self) -> bool:
        return not self.sampling and self.sent < len(self.owed)


@dataclass
class Ring:
    """Frames in a ring, first in first out, and the laws, checked at each pass."""

    limits: Limits
    batcher: Batcher = field(init=False)
    flight: deque[Segments] = field(default_factory=deque)
    live: dict[int, Sequence] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # request to slot, once it has one
    asked: dict[str, tuple[tuple[int, ...], SlotSpec]] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    rows: dict[int, list[int]] = field(default_factory=dict)  # of each batch, as the shards have them
    batches: int = 0  # frames of batches that were sent

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.limits)

    def submit(self, name: str, length: int, max_tokens: int) -> None:
        tokens = tuple(hash((name, at)) % 1000 for at in range(length))
        if name not in self.asked:
            assert self.batcher.submit(name, tokens, spec(length, max_tokens))
            self.asked[name] = (tokens, spec(length, max_tokens))
        elif self.known(name):
            assert not self.batcher.submit(name, tokens, spec(length, max_tokens)), "the name is taken"

    def known(self, name: str) -> bool:
        return name in self.asked and (name not in self.names or self.names[name] in self.live)

    def send(self) -> Segments | None:
        sent = self.batcher.next_pass()
        self.collect_released()
        if sent is None:
            return None
        self.check_batch(sent)
        for turn in sent.turns:
            self.check_turn(turn)
        self.flight.append(sent)
        assert len(self.flight) == self.batcher.in_flight <= self.limits.flight_max + 1
        self.check_room()
        self.check_fairness({turn.slot for turn in sent.turns})
        return sent

    def check_batch(self, sent: Segments) -> None:
        """Who is in which batch, as the shards will read it."""
        names, counts = [turn.slot for turn in sent.turns], [len(turn.tokens) for turn in sent.turns]
        assert len(set(names)) == len(names)
        for number, other in self.rows.items():
            other[:] = [row for row in other if row in self.live and (row not in names or number == sent.batch)]
        if not sent.batch:
            assert len(names) == 1
            return
        assert self.limits.ride != "alone"
        assert len(names) > 1, "a batch of one is slower than a slot that is alone"
        assert self.limits.ride == "ragged" or len(set(counts)) == 1
        assert len(names) * max(counts) <= max(self.limits.chunk_tokens, len(names))
        assert all(self.live[name].answering and not self.live[name].flying for name in names)
        assert all(turn.batch != sent.batch for turn in self.flight), "one frame of a batch in the ring"
        assert names[: len(stay := [row for row in self.rows.get(sent.batch, []) if row in names])] == stay
        self.rows[sent.batch] = names
        self.batches += 1

    def check_turn(self, turn: Turn) -> None:
        assert turn.slot not in self.released, "a released slot is used again"
        if turn.slot not in self.live:
            self.begin(turn)
        sequence = self.live[turn.slot]
        assert turn.position == sequence.sent, "positions are contiguous"
        assert not sequence.sampling, "one sampling segment of a slot at a time"
        assert (turn.spec is not None) == (turn.position == 0)
        assert 0 < len(turn.tokens) <= self.limits.chunk_tokens
        assert list(turn.tokens) == sequence.owed[turn.position : turn.position + len(turn.tokens)]
        sequence.sent += len(turn.tokens)
        assert turn.sample == (sequence.sent == len(sequence.owed)), "what is known is sent before more is sampled"
        sequence.sampling = turn.sample
        sequence.flying += 1

    def begin(self, turn: Turn) -> None:
        name = next(name for name in self.asked if name not in self.names)  # first come, first served
        self.names[name] = turn.slot
        tokens, asked = self.asked[name]
        assert turn.spec == asked
        self.live[turn.slot] = Sequence(list(tokens), len(tokens) + asked.max_tokens)

    def check_room(self) -> None:
        reserved = sum(sequence.reserved for sequence in self.live.values())
        for rows in self.rows.values():
            sizes = [self.live[row].reserved for row in rows if row in self.live]
            reserved += len(sizes) * max(sizes, default=0) - sum(sizes)  # a row is as long as the longest
        assert len(self.live) <= self.limits.slots_max
        assert reserved <= self.limits.kv_tokens_max or len(self.live) == 1

    def check_fairness(self, chosen: set[int]) -> None:
        for slot, sequence in self.live.items():
            sequence.waited = 0 if slot in chosen or not sequence.ready else sequence.waited + 1
            # A prompt waits for a chunk of each other prompt, and before each for a pass of each batch.
            assert sequence.waited <= self.limits.slots_max**2, "a slot that was ready was passed over"

    def give_back(self, followers: int, ends: bool) -> None:
        if not self.flight:
            return
        sent = self.flight.popleft()
        tokens = tuple(range(1 + followers))
        rows = [
            Returned(turn.slot, tokens, "stop" if ends and at == 0 else "") if turn.sample else Returned(turn.slot)
            for at, turn in enumerate(sent.turns)
        ]
        progress = self.batcher.returned(rows, (0.01 * len(rows),) * len(self.limits.machines))
        for row, news in zip(rows, progress, strict=True):
            sequence = self.live.get(row.slot)
            assert (news is None) == (sequence is None)
            if sequence is None:
                continue
            sequence.flying -= 1
            if row.tokens:
                sequence.owed.extend(tokens)
                sequence.sampling, sequence.answering = False, True
            if row.finish:
                del self.live[row.slot]
        self.collect_released()

    def cancel(self, name: str) -> None:
        known = self.known(name)
        assert self.batcher.cancel(name) == known
        if not known:
            return
        if name in self.names:
            del self.live[self.names[name]]
        else:
            self.names[name] = -1  # it never had a slot that anybody saw
        self.collect_released()

    def collect_released(self) -> None:
        for slot in self.batcher.take_released():
            assert slot not in self.released, "released twice"
            assert slot not in self.live, "released while it runs"
            self.released.add(slot)


ALL_LIMITS = st.builds(
    Limits,
    chunk_tokens=st.integers(1, 6),
    flight_max=st.integers(1, 4),
    slots_max=st.integers(1, 4),
    kv_tokens_max=st.integers(10, 120),
    ride=st.sampled_from(["alone", "even", "ragged"]),
    machines=st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple),
)


NAMES = [f"r{number}" for number in range(30)]


def at_random(ring: Ring, seed: int, steps: int) -> None:
    """Requests come, frames go out and come back, answers end and are cancelled, as the seed has it."""
    chance = random.Random(seed)
    for _ in range(steps):
        what = chance.choices(["submit", "send", "return", "cancel"], weights=(2, 10, 10, 1))[0]
        if what == "submit":
            ring.submit(chance.choice(NAMES), chance.randint(1, 14), chance.randint(1, 40))
        elif what == "send":
            ring.send()
        elif what == "return":
            ring.give_back(chance.choice([0, 0, 0, 1, 6]), chance.random() < 0.05)
        else:
            ring.cancel(chance.choice(NAMES))


@settings(max_examples=150, deadline=None)
@given(limits=ALL_LIMITS, seed=st.integers(0, 2**32))
def test_the_laws_hold_whatever_comes_in_whatever_order(limits: Limits, seed: int) -> None:
    ring = Ring(limits)
    at_random(ring, seed, 300)
    drain(ring)


def test_the_random_rings_have_batches_that_change() -> None:
    ring = Ring(Limits(chunk_tokens=6, flight_max=2, slots_max=6, ride="ragged", machines=(0, 1)))
    at_random(ring, 1, 300)
    assert len(ring.rows) > 1
    assert ring.batches > 30


def drain(ring: Ring) -> None:
    """No more faults: every request must end, and every slot be released."""
    for _ in range(2000):
        while ring.send() is not None:
            pass
        if not ring.flight:
            break
        ring.give_back(followers=0, ends=True)
    assert not ring.live
    assert set(ring.names) == set(ring.asked), "a request was never begun"
    assert {slot for slot in ring.names.values() if slot > 0} <= ring.released
    assert ring.batcher.live == ring.batcher.in_flight == 0


def only(batcher: Batcher) -> Turn:
    """The next pass's one turn."""
    sent = batcher.next_pass()
    assert sent is not None
    (turn,) = sent.turns
    return turn


def back(batcher: Batcher, turn: Turn, *tokens: int, ends: bool = False) -> Progress | None:
    (progress,) = batcher.returned([Returned(turn.slot, tokens, "stop" if ends else "")])
    return progress


def answering(batcher: Batcher, *lengths: int, max_tokens: int = 100) -> list[int]:
    """Requests with prompts of these lengths, each with its first token back; their slots."""
    slots = []
    for number, length in enumerate(lengths):
        assert batcher.submit(f"a{number}", prompt(length), spec(length, max_tokens))
    waiting = set(range(len(lengths)))
    while waiting:
        sent = batcher.next_pass()
        assert sent is not None
        batcher.returned([Returned(turn.slot, (7,) if turn.sample else ()) for turn in sent.turns])
        for turn in sent.turns:
            if turn.sample and turn.slot not in slots:
                slots.append(turn.slot)
                waiting.pop()
    return slots


def passes(batcher: Batcher, count: int) -> list[Segments]:
    """So many passes in a ring that answers at once, each row with one more token."""
    found = []
    for _ in range(count):
        sent = batcher.next_pass()
        assert sent is not None
        batcher.returned([Returned(turn.slot, (7,) if turn.sample else ()) for turn in sent.turns])
        found.append(sent)
    return found


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


def test_rows_that_would_be_padded_beyond_the_memory_take_turns() -> None:
    batcher = Batcher(replace(RAGGED, kv_tokens_max=330))
    short, long = answering(batcher, 10, 90)  # 110 and 190 tokens reserved; together they would take 380
    sent = passes(batcher, 4)
    assert [each.batch for each in sent] == [0] * 4
    assert sorted(turn.slot for each in sent for turn in each.turns) == sorted([short, long] * 2)


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
    assert not batcher.submit("one more", prompt(1), spec(1))
    assert batcher.next_pass() is not None
    assert not batcher.submit("r0", prompt(1), spec(1)), "the name runs"
    assert batcher.submit("one more", prompt(1), spec(1)), "slots made room in the queue"


def test_cancelling_everything_releases_every_slot_and_forgets_the_queue() -> None:
    batcher = Batcher(LIMITS)
    for name in "abcde":
        batcher.submit(name, prompt(3), spec(3))
    turns = [only(batcher) for _ in range(3)]
    batcher.cancel_all()
    assert sorted(batcher.take_released()) == sorted(turn.slot for turn in turns)
    assert batcher.live == 0
    for turn in turns:
        assert back(batcher, turn, 1) is None
    assert batcher.next_pass() is None


def test_a_request_larger_than_the_whole_budget_runs_alone() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("huge", prompt(70), spec(70, 10))
    batcher.submit("small", prompt(1), spec(1))
    only(batcher)
    assert batcher.live == 1
