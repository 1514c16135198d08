"""A ring that holds a batcher to its laws: requests come and go, frames return, and each pass is checked."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

import pytest

from ringleader.errors import ContextTooLong
from ringleader.shard.batcher import PASSED_MAX, Batcher, Limits, Returned, Segments, Turn
from ringleader.shard.waiting import YIELDS, Progress
from ringleader.values import Finish, Sampling, SlotSpec
from tests.unit.shard.lawful_kept import Store


def spec(prompt_tokens: int, max_tokens: int = 10, seed: int = 0) -> SlotSpec:
    return SlotSpec(Sampling(seed=seed), max_tokens=max_tokens, prompt_tokens=prompt_tokens)


def prompt(length: int) -> tuple[int, ...]:
    return tuple(range(length))


def token(name: str, at: int) -> int:
    """What the model says there: a draw is a function of the request and the position alone."""
    return hash((name, at)) % 1000


def alike(guesses: Iterable[int], tokens: Iterable[int]) -> int:
    """How many of them agree from the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(guesses, tokens, strict=False)))


@dataclass
class Wanted:
    """One request as its client knows it. `answer` are the tokens that came, whatever slots they came from."""

    prompt: tuple[int, ...]
    spec: SlotSpec
    priority: int
    place: int
    answer: list[int] = field(default_factory=list)
    slot: int = 0  # its present one; 0: it waits
    over: bool = False
    preempted: int = 0


@dataclass
class Sequence:
    """What the outside knows of one slot: all tokens that it should send, and how many it sent."""

    name: str
    owed: list[int]
    sent: int = 0
    reach: int = 0  # positions that the shards hold, of drafts that were wrong too
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
    asked: dict[str, Wanted] = field(default_factory=dict)
    by_seed: dict[int, str] = field(default_factory=dict)
    released: dict[int, str] = field(default_factory=dict)  # slot to the request that had it
    rows: dict[int, list[int]] = field(default_factory=dict)  # of each batch, as the shards have them
    batches: int = 0  # frames of batches that were sent
    shares: bool = False  # prompts begin alike
    kept: Store = field(default_factory=Store)
    begun: dict[int, Sequence] = field(default_factory=dict)  # all slots that ever were
    refused: int = 0
    drafts: int = 0  # that were sent

    def __post_init__(self) -> None:
        self.batcher = Batcher(self.limits)
        self.kept.state_tokens = self.limits.state_tokens

    def submit(self, name: str, length: int, max_tokens: int, priority: int = 0) -> None:
        shared = int(name[1:]) % 3 * length // 3 if self.shares else 0
        tokens = tuple(token("" if at <= shared else name, -at) for at in range(1, length + 1))
        seed = len(self.by_seed) + 1
        if self.known(name):
            assert not self.batcher.submit(name, tokens, spec(length, max_tokens)), "the name is taken"
        elif name not in self.asked:
            if self.rounded(length + max_tokens) > self.limits.kv_tokens_max:
                with pytest.raises(ContextTooLong, match=f"{length} tokens of prompt and {max_tokens} of answer"):
                    self.batcher.submit(name, tokens, spec(length, max_tokens))
                self.refused += 1
                return
            assert self.batcher.submit(name, tokens, spec(length, max_tokens, seed), priority)
            self.by_seed[seed] = name
            place = len(self.asked) + 1 + priority * YIELDS
            self.asked[name] = Wanted(tokens, spec(length, max_tokens, seed), priority, place)

    def known(self, name: str) -> bool:
        return name in self.asked and not self.asked[name].over

    def rounded(self, tokens: int) -> int:
        return -(-tokens // self.limits.kv_step) * self.limits.kv_step

    def send(self) -> Segments | None:
        sent = self.batcher.next_pass()
        self.collect_released()
        if sent is None:
            return None
        self.check_batch(sent)
        for turn in sent.turns:
            self.check_turn(turn)
        self.flight.append(sent)
        assert len(self.flight) == self.batcher.in_flight <= self.limits.flight_max + 2
        self.check_room({turn.slot for turn in sent.turns if turn.spec is not None})
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
        assert (turn.spec is not None) == (turn.position == 0 or bool(turn.begins_from))
        assert 0 < len(turn.tokens) <= self.limits.chunk_tokens
        certain = turn.tokens[: len(turn.tokens) - turn.drafts]
        assert certain, "drafts come behind what is known"
        assert turn.sample or not turn.drafts
        assert list(certain) == sequence.owed[turn.position : turn.position + len(certain)]
        sequence.sent += len(certain)
        sequence.reach = turn.position + len(turn.tokens)
        self.drafts += turn.drafts
        assert turn.sample == (sequence.sent == len(sequence.owed)), "what is known is sent before more is sampled"
        sequence.sampling = turn.sample
        sequence.flying += 1

    def begin(self, turn: Turn) -> None:
        """A slot's first segment: of the request that is next in rank, with all that it has answered already."""
        assert turn.spec is not None
        name = self.by_seed[turn.spec.sampling.seed]
        wanted = self.asked[name]
        assert not wanted.over and not wanted.slot
        assert turn.spec == replace(wanted.spec, resumed_tokens=len(wanted.answer))
        wanted.slot = turn.slot
        sequence = Sequence(name, [*wanted.prompt, *wanted.answer], turn.position)
        self.kept.begin(turn.begins_from, turn.position, sequence.owed)
        self.live[turn.slot] = self.begun[turn.slot] = sequence

    def check_room(self, new: set[int]) -> None:
        """What the shards hold, padding of batches and the steps in which caches grow included. Kept prefixes have what
        is left, and those that a slot is about to begin from, or did with this frame."""
        held = {slot: self.limits.kv_slot + self.rounded(each.reach) for slot, each in self.live.items()}
        total = sum(held.values())
        for rows in self.rows.values():
            sizes = [held[row] for row in rows if row in held]
            total += len(sizes) * max(sizes, default=0) - sum(sizes)  # a row is as long as the longest
        assert len(self.live) <= self.limits.slots_max
        assert total <= self.limits.kv_tokens_max + (self.limits.kv_slot if len(self.live) == 1 else 0)
        # Padding of batches that are about to be parted is not counted: it goes with their next frame.
        if self.kept.room and sum(held.values()) + self.kept.room > self.limits.kv_tokens_max:
            coming = [wanted for wanted in self.asked.values() if not wanted.over and wanted.slot in {0, *new}]
            needed = [(*wanted.prompt, *wanted.answer) for wanted in coming]
            for tokens in self.kept.blocks.values():
                assert any(each[: len(tokens)] == tokens for each in needed), "kept without room"

    def check_fairness(self, chosen: set[int]) -> None:
        for slot, sequence in self.live.items():
            sequence.waited = 0 if slot in chosen or not sequence.ready else sequence.waited + 1
            # A prompt lets a few chunks of others pass, then those that were passed over as often and one beside each,
            # and before each chunk goes a pass of each batch; another time round where slots that were given up come
            # and go meanwhile.
            bound = 2 * (2 * self.limits.slots_max + PASSED_MAX) * self.limits.slots_max
            assert sequence.waited <= bound, "a slot that was ready was passed over"

    def give_back(self, followers: int, ends: bool, guesses: int = 0, right: int = 0) -> None:
        """The oldest frame comes back; the tail guesses so many tokens, of which the first are `right`."""
        if not self.flight:
            return
        sent = self.flight.popleft()
        rows = [self.drawn(turn, followers, ends and at == 0, guesses, right) for at, turn in enumerate(sent.turns)]
        progress = self.batcher.returned(rows, (0.01 * len(rows),) * len(self.limits.machines))
        for turn, row, news in zip(sent.turns, rows, progress, strict=True):
            sequence = self.live.get(row.slot)
            name = sequence.name if sequence is not None else self.released[row.slot]
            assert (news is None) == self.asked[name].over, "what comes back counts, unless its request is over"
            if news is None:
                continue
            assert news.request == name and news.ended == bool(row.finish)
            self.asked[name].answer.extend(row.tokens)
            self.asked[name].over = bool(row.finish)
            if sequence is None:
                continue
            sequence.flying -= 1
            if row.tokens:
                sequence.owed.extend(row.tokens)
                sequence.sent += alike(turn.guesses, row.tokens[:-1])
                sequence.sampling, sequence.answering = False, True
            if row.finish:
                del self.live[row.slot]
        self.collect_released()

    def drawn(self, turn: Turn, followers: int, ends: bool, guesses: int, right: int) -> Returned:
        """What the tail says to a turn: as many tokens as the answer still may have."""
        if not turn.sample:
            return Returned(turn.slot)
        name = self.live[turn.slot].name if turn.slot in self.live else self.released[turn.slot]
        wanted = self.asked[name]
        room = wanted.spec.max_tokens - len(wanted.answer)
        coming = [token(name, len(wanted.answer) + at) for at in range(room)]
        count = min(room, alike(turn.guesses, coming) + 1 + followers)
        guessed = [each if at < right else -1 for at, each in enumerate(coming[count : count + guesses][:-1])]
        finish: Finish = "stop" if ends else "length" if count == room else ""
        return Returned(turn.slot, tuple(coming[:count]), finish, tuple(guessed))

    def cancel(self, name: str) -> None:
        known = self.known(name)
        assert self.batcher.cancel(name) == known
        if known:
            self.asked[name].over = True
            self.live.pop(self.asked[name].slot, None)
            self.collect_released(name)

    def collect_released(self, cancelled: str = "") -> None:
        orders = self.batcher.take_orders()
        self.kept.carry_out(orders, {slot: each.owed[: each.sent] for slot, each in self.begun.items()})
        assert self.kept.room == self.batcher.kept_tokens and self.kept.whole()
        for slot in orders.released:
            assert slot not in self.released, "released twice"
            gone = self.live.pop(slot, None)
            name = (
                gone.name if gone is not None else next((n for n, w in self.asked.items() if w.slot == slot), cancelled)
            )
            self.released[slot] = name
            if gone is not None:
                self.asked[name].preempted += 1
                first = min(wanted.place for wanted in self.asked.values() if not wanted.over)
                assert first < self.asked[name].place, "who is first in rank gave up its slot"
            if name:
                self.asked[name].slot = 0


NAMES = [f"r{number}" for number in range(30)]


def at_random(ring: Ring, seed: int, steps: int) -> None:
    """Requests come, frames go out and come back, answers end and are cancelled, as the seed has it."""
    chance = random.Random(seed)
    for _ in range(steps):
        what = chance.choices(["submit", "send", "return", "cancel"], weights=(2, 10, 10, 1))[0]
        if what == "submit":
            priority = chance.choice([0, 0, 0, 1, -1])
            length = chance.randint(1, 150 if ring.shares else 14)
            ring.submit(chance.choice(NAMES), length, chance.randint(1, 40), priority)
        elif what == "send":
            ring.send()
        elif what == "return":
            guesses, right = chance.choice([0, 0, 3, 9]), chance.choice([0, 1, 9])
            ring.give_back(chance.choice([0, 0, 0, 1, 6]), chance.random() < 0.05, guesses, right)
        else:
            ring.cancel(chance.choice(NAMES))


def drain(ring: Ring) -> None:
    """No more faults: every request must end with the very tokens that its model says, and every slot be released."""
    for _ in range(5000):
        while ring.send() is not None:
            pass
        if not ring.flight:
            break
        ring.give_back(followers=0, ends=False)
    assert not ring.live
    for name, wanted in ring.asked.items():
        assert wanted.over, f"{name} never ended"
        assert wanted.answer == [token(name, at) for at in range(len(wanted.answer))], f"{name} lost or repeated tokens"
    assert ring.batcher.live == ring.batcher.in_flight == ring.batcher.waiting == 0


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
    return sorted(slots)


def passes(batcher: Batcher, count: int) -> list[Segments]:
    """So many passes in a ring that answers at once, each row with one more token."""
    found = []
    for _ in range(count):
        sent = batcher.next_pass()
        assert sent is not None
        batcher.returned([Returned(turn.slot, (7,) if turn.sample else ()) for turn in sent.turns])
        found.append(sent)
    return found
