"""The batcher's laws, held by random rings: requests come and go, frames return, nobody waits for ever."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.shard.batcher import QUEUE_MAX, Batcher, Limits, Turn
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
    waited: int = 0

    @property
    def ready(self) -> bool:
        return not self.sampling and self.sent < len(self.owed)


@dataclass
class Ring:
    """Frames in a ring, first in first out, and the laws, checked at each turn."""

    limits: Limits
    batcher: Batcher = field(init=False)
    flight: deque[Turn] = field(default_factory=deque)
    live: dict[int, Sequence] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # request to slot, once it has one
    asked: dict[str, tuple[tuple[int, ...], SlotSpec]] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)

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

    def send(self) -> Turn | None:
        turn = self.batcher.next_turn()
        self.collect_released()
        if turn is None:
            return None
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
        self.flight.append(turn)
        assert len(self.flight) == self.batcher.in_flight <= self.limits.flight_max
        self.check_room()
        self.check_fairness(turn.slot)
        return turn

    def begin(self, turn: Turn) -> None:
        name = next(name for name in self.asked if name not in self.names)  # first come, first served
        self.names[name] = turn.slot
        tokens, asked = self.asked[name]
        assert turn.spec == asked
        self.live[turn.slot] = Sequence(list(tokens), len(tokens) + asked.max_tokens)

    def check_room(self) -> None:
        reserved = sum(sequence.reserved for sequence in self.live.values())
        assert len(self.live) <= self.limits.slots_max
        assert reserved <= self.limits.kv_tokens_max or len(self.live) == 1

    def check_fairness(self, chosen: int) -> None:
        for slot, sequence in self.live.items():
            sequence.waited = 0 if slot == chosen or not sequence.ready else sequence.waited + 1
            assert sequence.waited < self.limits.slots_max, "a slot that was ready was passed over for a whole round"

    def give_back(self, followers: int, ends: bool) -> None:
        if not self.flight:
            return
        turn = self.flight.popleft()
        tokens = tuple(range(1 + followers)) if turn.sample else ()
        progress = self.batcher.returned(turn.slot, tokens, "stop" if turn.sample and ends else "")
        sequence = self.live.get(turn.slot)
        assert (progress is None) == (sequence is None)
        if sequence is not None and turn.sample:
            sequence.owed.extend(tokens)
            sequence.sampling = False
            if ends:
                del self.live[turn.slot]
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


NAMES = st.sampled_from([f"r{number}" for number in range(8)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), NAMES, st.integers(1, 14), st.integers(1, 40)),
        st.tuples(st.just("send")),
        st.tuples(st.just("send")),
        st.tuples(st.just("return"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("cancel"), NAMES),
    ),
    max_size=80,
)
ALL_LIMITS = st.builds(
    Limits,
    chunk_tokens=st.integers(1, 6),
    flight_max=st.integers(1, 4),
    slots_max=st.integers(1, 4),
    kv_tokens_max=st.integers(10, 120),
)


@settings(max_examples=300, deadline=None)
@given(limits=ALL_LIMITS, steps=STEPS)
def test_the_laws_hold_whatever_comes_in_whatever_order(limits: Limits, steps: list[tuple[object, ...]]) -> None:
    ring = Ring(limits)
    actions = {"submit": ring.submit, "send": ring.send, "return": ring.give_back, "cancel": ring.cancel}
    for name, *arguments in steps:
        actions[str(name)](*arguments)  # type: ignore[operator]  # each with the arguments that STEPS gives it
    drain(ring)


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


def test_a_running_answer_is_not_held_up_by_short_requests_that_keep_coming() -> None:
    batcher = Batcher(Limits(slots_max=2, flight_max=1))
    assert batcher.submit("long", prompt(1), spec(1))
    long = batcher.next_turn()
    assert long is not None
    batcher.returned(long.slot, (7,), "")
    turns = []
    for number in range(10):
        assert batcher.submit(f"short {number}", prompt(1), spec(1))
        turn = batcher.next_turn()
        assert turn is not None
        turns.append(turn.slot)
        batcher.returned(turn.slot, (7,), "" if turn.slot == long.slot else "stop")
    assert turns.count(long.slot) == 5


def test_a_prompt_is_cut_into_chunks_and_only_the_last_one_samples() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(10), spec(10))
    turns = [batcher.next_turn() for _ in range(3)]
    assert [(turn.position, len(turn.tokens), turn.sample) for turn in turns if turn] == [
        (0, 4, False),
        (4, 4, False),
        (8, 2, True),
    ]


def test_progress_counts_passes_and_prompt_tokens() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(6), spec(6))
    first, second = batcher.next_turn(), batcher.next_turn()
    assert first and second
    chunk = batcher.returned(first.slot, (), "")
    assert chunk and (chunk.request, chunk.prompt_done, chunk.ended) == ("a", 4, False)
    sampled = batcher.returned(second.slot, (1, 2, 3), "")
    assert sampled and (sampled.passes, sampled.prompt_done) == (2, 6)
    followers = batcher.next_turn()
    assert followers and followers.tokens == (1, 2, 3), "a sampled token and its followers go in one frame"
    last = batcher.returned(followers.slot, (9,), "stop")
    assert last and (last.passes, last.prompt_done, last.ended) == (3, 6, True)


def test_a_frame_that_comes_back_out_of_order_is_an_error() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("a", prompt(1), spec(1))
    batcher.submit("b", prompt(1), spec(1))
    first, second = batcher.next_turn(), batcher.next_turn()
    assert first and second and first.slot != second.slot
    with pytest.raises(ValueError, match="out of order"):
        batcher.returned(second.slot, (1,), "")


def test_a_full_queue_an_empty_prompt_and_a_taken_name_are_refused() -> None:
    batcher = Batcher(LIMITS)
    assert not batcher.submit("empty", (), spec(0))
    for number in range(QUEUE_MAX):
        assert batcher.submit(f"r{number}", prompt(1), spec(1))
    assert not batcher.submit("one more", prompt(1), spec(1))
    assert batcher.next_turn() is not None
    assert not batcher.submit("r0", prompt(1), spec(1)), "the name runs"
    assert batcher.submit("one more", prompt(1), spec(1)), "slots made room in the queue"


def test_cancelling_everything_releases_every_slot_and_forgets_the_queue() -> None:
    batcher = Batcher(LIMITS)
    for name in "abcde":
        batcher.submit(name, prompt(3), spec(3))
    slots = [turn.slot for turn in (batcher.next_turn(), batcher.next_turn(), batcher.next_turn()) if turn]
    batcher.cancel_all()
    assert sorted(batcher.take_released()) == sorted(slots)
    assert batcher.live == 0
    for slot in slots:
        assert batcher.returned(slot, (1,), "") is None
    assert batcher.next_turn() is None


def test_a_request_larger_than_the_whole_budget_runs_alone() -> None:
    batcher = Batcher(LIMITS)
    batcher.submit("huge", prompt(70), spec(70, 10))
    batcher.submit("small", prompt(1), spec(1))
    turn = batcher.next_turn()
    assert turn is not None
    assert batcher.live == 1
