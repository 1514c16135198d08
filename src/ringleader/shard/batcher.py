"""Decides what the head sends next: whose turn it is, who rides with whom, how prompts are cut. Pure.

Laws: a slot has at most one sampling segment in the ring; its segments leave in order of position; a batch has at
most one frame in the ring; between two chunks of prompts every batch has its pass; turns go round among batches, and of
prompts the one that ends soonest goes first, but lets none wait for more than a few; a released slot is never used
again. When memory runs out, the last in rank gives its slot up and waits with all that it had answered; the first in
rank always goes on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from ringleader.errors import Busy, ContextTooLong
from ringleader.shard.drafting import Drafting
from ringleader.shard.groups import Group, Groups
from ringleader.shard.lookup import Chance
from ringleader.shard.prefixes import Orders
from ringleader.shard.rhythm import Offer, Rhythm
from ringleader.shard.sharing import Sharing
from ringleader.shard.waiting import QUEUE_MAX, Asked, Line, Progress, Reservations
from ringleader.values import Finish, Ride, SlotSpec

PASSED_MAX = 4  # chunks of other prompts that one lets pass: a long one then gets every fifth, however many come
PROGRESS_DEADLINE_S = 60.0  # a chunk of 512 tokens on a slow CPU takes some seconds; a minute is a death


@dataclass(frozen=True, slots=True)
class Limits:
    """`chunk_tokens` positions a frame at most; `flight_max` batches in the ring at once, one for each stage, or chunks
    of prompts, and one more, which waits where the next is computed; `slots_max` live slots; `kv_tokens_max` tokens of
    prompt and answer reserved over all live slots, padding of batches counted (the plan's KV budget), in steps of
    `kv_step`, `kv_ahead` more than a slot has, and `kv_slot` for the states of its recurrent layers; what they leave is
    for kept prefixes, if `keeps`, each state of which takes `state_tokens`. `machines` names each stage's machine."""

    chunk_tokens: int = 512
    flight_max: int = 1
    slots_max: int = 16
    kv_tokens_max: int = 1 << 30
    kv_step: int = 1
    kv_ahead: int = 64
    kv_slot: int = 0
    ride: Ride = "alone"
    machines: tuple[int, ...] = (0,)
    keeps: bool = True
    state_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One segment to send. `sample` asks the tail for a token; `spec` goes with a slot's first segment, and so does the
    name of the kept prefix that it `begins_from` when it does not stand at position 0. The last `drafts` of the tokens
    are guesses: the slot's next segment may begin before any of them."""

    slot: int
    position: int
    tokens: tuple[int, ...]
    sample: bool
    spec: SlotSpec | None
    drafts: int = 0
    begins_from: bytes = b""

    @property
    def guesses(self) -> tuple[int, ...]:
        return self.tokens[len(self.tokens) - self.drafts :]


@dataclass(frozen=True, slots=True)
class Segments:
    """What one frame carries: the turn of a slot that is alone (`batch` 0), or a turn of each row of a batch, in order.

    The rows are the order to all shards: who is not named has left the batch, who is new joins it, at the end.
    `joined` says that someone will likely join soon: a step of the same rows, started ahead, would be in vain. It is
    for a ring of one, and does not travel.
    """

    turns: tuple[Turn, ...]
    batch: int = 0
    joined: bool = False

    @property
    def width(self) -> int:
        """Tokens of the longest row: the others are padded to it."""
        return max(len(turn.tokens) for turn in self.turns)

    @property
    def drafts(self) -> bool:
        return any(turn.drafts for turn in self.turns)


@dataclass(slots=True)
class _Live:
    asked: Asked
    spec: SlotSpec  # the request's, as this slot began
    pending: deque[int]  # tokens known but not yet sent
    position: int = 0  # tokens sent
    flying: bool = False  # a sampling segment is in the ring
    answering: bool = False  # its first token came back
    computed: int = 0
    passed: int = 0  # chunks of other prompts since its last one, while it was ready
    begun: bool = False
    chunks: deque[int] = field(default_factory=deque)  # sizes of its segments in the ring, oldest first
    guesses: tuple[int, ...] = ()  # what may follow `pending`
    riding: tuple[int, ...] = ()  # the drafts of the segment in the ring
    rejected: int = 0  # positions that the shards forget with the next segment
    chance: Chance = field(default_factory=Chance)

    def take(self, row: Returned) -> None:
        """Its sampling segment came back: of the drafts those stay that are in the answer."""
        pairs = zip(row.tokens[:-1], self.riding, strict=False)  # the last one's successor is yet to be drawn
        accepted = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.rejected = len(self.riding) - accepted
        self.position -= self.rejected
        self.pending.extend(row.tokens[accepted:])
        if self.guesses:
            self.chance.saw(len(self.riding), accepted)
        self.asked.drafted += len(self.riding)
        self.asked.accepted += accepted
        self.riding, self.guesses = (), row.drafts


@dataclass(frozen=True, slots=True)
class Returned:
    """What the tail says of one segment: nothing for a chunk of a prompt; `missed` when a shard lacked the prefix."""

    slot: int
    tokens: tuple[int, ...] = ()
    finish: Finish = ""
    drafts: tuple[int, ...] = ()
    missed: bool = False


class Batcher:
    """Requests in, passes out. Every pass is answered by `returned` once, in order of sending."""

    def __init__(self, limits: Limits, drafting: Drafting | None = None) -> None:
        self._limits = limits
        self.drafting = drafting or Drafting()
        self._rhythm = Rhythm(limits.machines)
        # Stages of one machine slow each other down: no answer's pass and prompt's chunk are in the ring at once then.
        self._crowded = len(set(limits.machines)) == 1 < len(limits.machines)
        self._line = Line()
        self._memory = Reservations(limits.kv_tokens_max, limits.kv_step, limits.kv_ahead, limits.kv_slot)
        self.preemptions = 0  # slots that were taken from requests, since the beginning
        self._preempted: dict[int, Asked] = {}  # slots that were taken from requests, with segments in the ring
        self._sharing = Sharing(limits.keeps, limits.state_tokens)
        self._live: OrderedDict[int, _Live] = OrderedDict()  # prompts in order of turns: the next one first
        self._groups = Groups(self._memory, limits.chunk_tokens, limits.ride == "alone")
        self._since_chunk = 0  # passes of groups since a prompt's chunk was sent
        self._owed = False  # the last chunk went to a prompt because it was overdue
        self._released: list[int] = []
        # In the ring, oldest first: with their groups' numbers, and whether rows step back by different numbers for it.
        self._flight: deque[tuple[Segments, int, bool]] = deque()
        self._next_slot = 1

    @property
    def in_flight(self) -> int:
        return len(self._flight)

    @property
    def live(self) -> int:
        return len(self._live)

    @property
    def waiting(self) -> int:
        return len(self._line)

    def submit(self, request: str, prompt: tuple[int, ...], spec: SlotSpec, priority: int = 0) -> bool:
        """Take a request, lower priorities first; False when there is no prompt or the name is taken.

        Raises:
            ContextTooLong: it could never fit, even alone.
            Busy: the line is full.
        """
        if not prompt or self._known(request):
            return False
        asked = Asked(request, list(prompt), spec, priority)
        if self._memory.whole(asked) > self._memory.tokens_max:
            raise ContextTooLong(
                f"{spec.prompt_tokens} tokens of prompt and {spec.max_tokens} of answer do not fit the ring's memory, "
                f"which has room for {self._memory.tokens_max} tokens; ask for fewer",
                param="max_tokens",
            )
        if not self._line.join(asked):
            raise Busy(f"{QUEUE_MAX} requests wait at the ring's head, the most that are taken; try again later")
        return True

    def _known(self, request: str) -> bool:
        return request in self._line or any(live.asked.request == request for live in self._live.values())

    def cancel(self, request: str) -> bool:
        """Forget a request; its slot is released with the next frame. False when it is not known."""
        self._preempted = {slot: asked for slot, asked in self._preempted.items() if asked.request != request}
        if self._line.leave(request):
            return True
        for slot, live in self._live.items():
            if live.asked.request == request:
                self._let_go(slot)
                return True
        return False

    def cancel_all(self) -> None:
        self._line.clear()
        self._preempted.clear()
        for slot in list(self._live):
            self._let_go(slot)

    @property
    def kept_tokens(self) -> int:
        """Room that kept prefixes take."""
        return self._sharing.kept_tokens

    def kept_names(self) -> frozenset[bytes]:
        """Of the blocks that all shards keep, when they have carried all orders out."""
        return self._sharing.kept_names()

    def take_orders(self) -> Orders:
        """What the next frame must order before its segments; each order is given once."""
        released, self._released = tuple(self._released), []
        return Orders(released, self._sharing.take_orders())

    # ------------------------------------------------------------ what is sent

    def next_pass(self) -> Segments | None:
        """The next frame's segments, or None while nothing may be sent."""
        self._admit()
        self._grow()
        self._groups.arrange([slot for slot, live in self._live.items() if live.answering], self._rhythm.batches)
        self._sharing.fit(self._memory.left(self._groups.batches()))
        group, slot = self._ready_group(), self._ready_prompt()
        if slot is not None and self._chunk_due:
            self._since_chunk = 0
            self._owed = self._live[slot].passed >= PASSED_MAX and not self._owed
            waiting = sum(len(live.pending) for live in self._live.values() if not live.answering)
            rest = len(self._live[slot].pending)
            chunk = self._rhythm.chunk_tokens(self._groups.rows, self._limits.chunk_tokens, rest, waiting)
            for each in self._ready_prompts():
                self._live[each].passed = 0 if each == slot else self._live[each].passed + 1
            return self._fly((slot,), chunk, 0)
        if group is None:
            return None
        self._since_chunk += 1
        self._groups.go(group)
        return self._fly(tuple(group.slots), self._width(group), group.number)

    @property
    def _chunk_due(self) -> bool:
        return self._since_chunk >= len(self._groups)

    def _ready_group(self) -> Group | None:
        groups = sum(bool(number) for _, number, _ in self._flight)
        if groups >= self._limits.flight_max or (self._crowded and groups < len(self._flight)):
            return None
        if self._crowded and self._flight and self._chunk_due and self._ready_prompts():
            return None  # passes of several batches would leave no moment for it
        return self._groups.ready()

    def _ready_prompt(self) -> int | None:
        flying = sum(not number for _, number, _ in self._flight)
        beside = flying < len(self._flight)
        most = 1 if beside or self._groups else self._limits.flight_max + 1
        if flying >= most or (self._crowded and beside):
            return None
        return min(self._ready_prompts(), key=self._turn_of, default=None)

    def _ready_prompts(self) -> list[int]:
        ready = (slot for slot, live in self._live.items() if live.pending and not live.flying and not live.answering)
        return [slot for slot in ready if not self._sharing.awaits(slot)]

    def _turn_of(self, slot: int) -> tuple[int, int, int, int]:
        """Whose chunk goes first: who was passed over too often, then by priority, then who ends soonest.

        Were turns shared out evenly, prompts that come together would all be answered only when the last is computed;
        so where all are overdue, every other chunk still goes to who ends soonest.
        """
        live = self._live[slot]
        overdue = live.passed if live.passed >= PASSED_MAX and not self._owed else 0
        return -overdue, live.asked.priority, len(live.pending), live.asked.place

    def _width(self, group: Group) -> int:
        most = self._limits.chunk_tokens
        offers = [self._offer(slot, self._live[slot]) for slot in group.slots]
        if len(offers) == 1 and not offers[0].drafts:
            return most
        return self._rhythm.width(offers, most, self._limits.ride == "ragged" or len(offers) == 1)

    def _offer(self, slot: int, live: _Live) -> Offer:
        chance = live.chance.value if live.guesses or not live.answering else self.drafting.chance(slot)
        return Offer(len(live.pending), len(self._guesses(slot, live)), chance)

    def _guesses(self, slot: int, live: _Live) -> tuple[int, ...]:
        """What may ride behind all that is pending: no memory is taken from others for what may be wrong."""
        known = live.position + len(live.pending)
        guesses = live.guesses or (self.drafting.drafts(slot) if live.answering else ())
        return guesses[: max(0, self._memory.room(slot) - known)]

    def _fly(self, slots: tuple[int, ...], width: int, group: int) -> Segments:
        moved = len({self._live[slot].rejected for slot in slots}) > 1
        turns = tuple(self._cut(slot, self._live[slot], width) for slot in slots)
        joined = any(not live.answering for live in self._live.values())
        found = Segments(turns, group if len(turns) > 1 else 0, joined)
        self._flight.append((found, group, moved))
        return found

    def _cut(self, slot: int, live: _Live, width: int) -> Turn:
        spec, name = (None, b"") if live.begun else (live.spec, self._begin(slot, live))
        guesses = self._guesses(slot, live)
        count = self._sharing.stretch(slot, min(len(live.pending), width))
        tokens = tuple(live.pending.popleft() for _ in range(count))
        sample = not live.pending
        drafts = guesses[: width - count] if sample else ()
        turn = Turn(slot, live.position, tokens + drafts, sample, spec, len(drafts), name)
        live.position += len(turn.tokens)
        live.flying, live.riding, live.rejected = sample, drafts, 0
        if sample:
            self.drafting.flew(slot, drafts)
        self._sharing.reach(slot, live.position - len(drafts))
        live.asked.passes += 1
        live.chunks.append(count)
        return turn

    def _begin(self, slot: int, live: _Live) -> bytes:
        """Let the slot begin after the kept prefix that this names; b"" at its first token."""
        live.begun = True
        prefix = self._sharing.begin(slot)
        if prefix is None:
            return b""
        for _ in range(prefix.tokens):
            live.pending.popleft()
        live.position = live.computed = prefix.tokens
        if not live.asked.preempted:
            live.asked.cached = live.asked.prompt_done = min(live.spec.prompt_tokens, prefix.tokens)
        return prefix.name

    # ------------------------------------------------------------ who has a slot, and memory

    def _admit(self) -> None:
        while (asked := self._line.first()) is not None:
            outranked = [] if self._has_room(asked) else self._outranked(asked)
            if outranked is None:
                passer = self._line.passer(self._has_room) if len(self._live) < self._limits.slots_max else None
                if passer is None:
                    return
                asked, outranked = passer, []
            for slot in outranked:
                self._preempt(slot)
            self._line.leave(asked.request)
            answered = len(asked.tokens) - asked.spec.prompt_tokens
            spec = replace(asked.spec, resumed_tokens=answered) if asked.preempted else asked.spec
            self._live[self._next_slot] = _Live(asked, spec, deque(asked.tokens))
            self._memory.reserve(self._next_slot, len(asked.tokens), asked.tokens_max)
            self._sharing.expect(self._next_slot, asked.tokens, asked.spec.opening_tokens)
            self.drafting.begin(self._next_slot, asked.tokens, asked.spec)
            self._next_slot += 1

    def _has_room(self, asked: Asked, without: Sequence[int] = ()) -> bool:
        """Whether it may begin, when these slots were given up."""
        left = len(self._live) - len(without)
        freed = sum(self._memory.of(slot) for slot in without)
        fits = self._memory.admits(asked, self._groups.batches(), freed)
        return left == 0 or (left < self._limits.slots_max and fits)

    def _outranked(self, asked: Asked) -> list[int] | None:
        """The slots of requests of less priority that must be given up for this one; None when that is not enough."""
        below = [slot for slot in self._by_rank() if self._live[slot].asked.priority > asked.priority]
        below = [slot for slot in below if self._live[slot].asked.place > asked.place]
        for count in range(1, len(below) + 1):
            if self._has_room(asked, below[-count:]):
                return below[-count:]
        return None

    def _by_rank(self) -> list[int]:
        return sorted(self._live, key=lambda slot: self._live[slot].asked.place)

    def _grow(self) -> None:
        """Give more memory to answers that need it for what they have by now, taking it from the last in rank."""
        for slot in self._by_rank():
            live = self._live.get(slot)
            if live is None or live.flying:
                continue
            known = live.position + len(live.pending)
            if known > self._memory.room(slot):
                self._memory.reserve(slot, known, live.asked.tokens_max)
                self._make_room()

    def _make_room(self) -> None:
        while not self._memory.fit(0, self._groups.batches()) and len(self._live) > 1:
            if self._groups.part():
                self._since_chunk = 0  # it holds its padding until it is sent alone: that goes before any prompt
            else:
                self._preempt(self._by_rank()[-1])

    def _preempt(self, slot: int) -> None:
        """Take the slot from its request, which waits again, before all who came later."""
        live = self._live[slot]
        live.asked.preempted += 1
        self.preemptions += 1
        if live.chunks:
            live.asked.flying = len(live.chunks)
            self._preempted[slot] = live.asked
        self._let_go(slot)
        self._line.rejoin(live.asked)

    # ------------------------------------------------------------ what comes back

    def returned(self, rows: Sequence[Returned], stage_s: Sequence[float] = ()) -> list[Progress | None]:
        """The oldest frame came back; `stage_s` are the seconds of each stage. None for a slot released meanwhile.

        Raises ValueError when it is not the oldest frame's slots: the ring broke its order.
        """
        if not self._flight or [turn.slot for turn in self._flight[0][0].turns] != [row.slot for row in rows]:
            raise ValueError(f"slots {', '.join(str(row.slot) for row in rows)} came back out of order")
        sent, number, moved = self._flight.popleft()
        if not any(row.missed for row in rows):
            self._rhythm.saw(len(sent.turns) * sent.width, stage_s, moved)
            if number:
                self.drafting.passed(sum(stage_s), len(sent.turns))
        self._groups.came_back(number)
        return [self._took(row, stage_s) for row in rows]

    def _took(self, row: Returned, stage_s: Sequence[float]) -> Progress | None:
        live = self._live.get(row.slot)
        if live is None:
            return self._took_late(row, stage_s)
        live.asked.took(stage_s)
        if row.missed:
            self._begin_anew(row.slot, live)
            return None
        asked = live.asked
        live.computed += live.chunks.popleft()
        asked.prompt_done = max(asked.prompt_done, min(live.spec.prompt_tokens, live.computed))
        if row.tokens or row.finish:
            live.flying = False
            live.take(row)
            asked.tokens.extend(row.tokens)
            self.drafting.grew(row.slot, len(row.tokens))
            self._sharing.grow(row.slot, row.tokens)
            self._sharing.reach(row.slot, live.position)
            if not live.answering:
                live.answering, self._groups.arranged = True, False
        if row.finish:
            self._let_go(row.slot)
        return asked.progress(ended=bool(row.finish))

    def _took_late(self, row: Returned, stage_s: Sequence[float]) -> Progress | None:
        """Of a slot that was given up while its segment was in the ring: what came of it counts all the same."""
        asked = self._preempted.get(row.slot)
        if asked is None:
            return None
        asked.took(stage_s)
        if row.missed:
            self._sharing.distrust()
        asked.flying -= 1
        if not asked.flying:
            del self._preempted[row.slot]
        asked.tokens.extend(row.tokens)
        if row.finish:
            self._line.leave(asked.request)
        return asked.progress(ended=bool(row.finish))

    def _begin_anew(self, slot: int, live: _Live) -> None:
        """A shard lacked what the slot began from: compute all of its prompt, in a new slot."""
        del self._live[slot]
        self._released.append(slot)
        anew, self._next_slot = self._next_slot, self._next_slot + 1
        live.asked.cached = 0
        self._live[anew] = _Live(live.asked, live.spec, deque(live.asked.tokens))
        self._memory.rename(slot, anew)
        self._sharing.begin_anew(slot, anew)
        self.drafting.end(slot)
        self.drafting.begin(anew, live.asked.tokens, live.asked.spec)

    def _let_go(self, slot: int) -> None:
        del self._live[slot]
        self._memory.let_go(slot)
        self._released.append(slot)
        self._groups.leave(slot)
        self.drafting.end(slot)
        self._sharing.end(slot, self._memory.left(self._groups.batches()))
