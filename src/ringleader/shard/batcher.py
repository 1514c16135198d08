"""Decides what the head sends next: whose turn it is, who rides with whom, how prompts are cut. Pure.

Laws: a slot has at most one sampling segment in the ring; its segments leave in order of position; a batch has at
most one frame in the ring; between two chunks of prompts every batch has its pass, and turns go round among prompts
and among batches, so that no request waits for another's end; a released slot is never used again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ringleader.shard.rhythm import Rhythm
from ringleader.shard.waiting import Asked, Line, Reservations
from ringleader.values import Finish, Ride, SlotSpec

PROGRESS_DEADLINE_S = 60.0  # a chunk of 512 tokens on a slow CPU takes some seconds; a minute is a death


@dataclass(frozen=True, slots=True)
class Limits:
    """`chunk_tokens` positions a frame at most; `flight_max` batches, or without answers prompts, in the ring at once,
    one for each stage; `slots_max` live slots; `kv_tokens_max` tokens of prompt and answer reserved over all live
    slots, padding of batches counted (the plan's KV budget). `machines` names each stage's machine."""

    chunk_tokens: int = 512
    flight_max: int = 1
    slots_max: int = 16
    kv_tokens_max: int = 1 << 30
    ride: Ride = "alone"
    machines: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Turn:
    """One segment to send. `sample` asks the tail for a token; `spec` goes with a slot's first segment."""

    slot: int
    position: int
    tokens: tuple[int, ...]
    sample: bool
    spec: SlotSpec | None


@dataclass(frozen=True, slots=True)
class Segments:
    """What one frame carries: the turn of a slot that is alone (`batch` 0), or a turn of each row of a batch, in order.

    The rows are the order to all shards: who is not named has left the batch, who is new joins it, at the end.
    """

    turns: tuple[Turn, ...]
    batch: int = 0

    @property
    def width(self) -> int:
        """Tokens of the longest row: the others are padded to it."""
        return max(len(turn.tokens) for turn in self.turns)


@dataclass(slots=True)
class _Live:
    request: str
    spec: SlotSpec
    pending: deque[int]  # tokens known but not yet sent
    position: int = 0  # tokens sent
    flying: bool = False  # a sampling segment is in the ring
    answering: bool = False  # its first token came back
    passes: int = 0
    prompt_done: int = 0
    chunks: deque[int] = field(default_factory=deque)  # sizes of its segments in the ring, oldest first


@dataclass(slots=True)
class _Group:
    """Answers that run together; one of a single slot is sent alone."""

    number: int
    slots: list[int]
    flying: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """What the tail says of one segment: nothing for a chunk of a prompt."""

    slot: int
    tokens: tuple[int, ...] = ()
    finish: Finish = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a returned segment meant for its request."""

    request: str
    passes: int
    prompt_done: int
    ended: bool


class Batcher:
    """Requests in, passes out. Every pass is answered by `returned` once, in order of sending."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rhythm = Rhythm(limits.machines)
        self._line = Line()
        self._memory = Reservations(limits.kv_tokens_max)
        self._live: OrderedDict[int, _Live] = OrderedDict()  # prompts in order of turns: the next one first
        self._groups: list[_Group] = []  # in order of turns
        self._arranged = True  # no answer began or ended since rows were given to groups
        self._since_chunk = 0  # passes of groups since a prompt's chunk was sent
        self._released: list[int] = []
        self._flight: deque[tuple[Segments, int]] = deque()  # in the ring, with their groups' numbers, oldest first
        self._next_slot = 1
        self._next_group = 1

    @property
    def in_flight(self) -> int:
        return len(self._flight)

    @property
    def live(self) -> int:
        return len(self._live)

    def submit(self, request: str, prompt: tuple[int, ...], spec: SlotSpec) -> bool:
        """Take a request; False when the queue is full or the name is taken."""
        return bool(prompt) and not self._known(request) and self._line.join(Asked(request, prompt, spec))

    def _known(self, request: str) -> bool:
        return request in self._line or any(live.request == request for live in self._live.values())

    def cancel(self, request: str) -> bool:
        """Forget a request; its slot is released with the next frame. False when it is not known."""
        if self._line.leave(request):
            return True
        for slot, live in self._live.items():
            if live.request == request:
                self._let_go(slot)
                return True
        return False

    def cancel_all(self) -> None:
        self._line.clear()
        for slot in list(self._live):
            self._let_go(slot)

    def take_released(self) -> tuple[int, ...]:
        """Slots that the next frame must name as released; each is given once."""
        released, self._released = tuple(self._released), []
        return released

    # ------------------------------------------------------------ what is sent

    def next_pass(self) -> Segments | None:
        """The next frame's segments, or None while nothing may be sent."""
        self._admit()
        self._arrange()
        group, slot = self._ready_group(), self._ready_prompt()
        due = self._since_chunk >= len(self._groups)
        if slot is not None and due:
            self._since_chunk = 0
            self._live.move_to_end(slot)
            running = sum(len(each.slots) for each in self._groups)
            return self._fly((slot,), self._rhythm.chunk_tokens(running, self._limits.chunk_tokens), 0)
        if group is None:
            return None
        self._since_chunk += 1
        self._groups.remove(group)
        self._groups.append(group)
        group.flying = True
        return self._fly(tuple(group.slots), self._width(group), group.number)

    def _ready_group(self) -> _Group | None:
        if sum(bool(number) for _, number in self._flight) >= self._limits.flight_max:
            return None
        return next((group for group in self._groups if not group.flying), None)

    def _ready_prompt(self) -> int | None:
        flying = sum(not number for _, number in self._flight)
        if flying >= (1 if self._groups else self._limits.flight_max):
            return None
        ready = (slot for slot, live in self._live.items() if live.pending and not live.flying and not live.answering)
        return next(ready, None)

    def _width(self, group: _Group) -> int:
        most = self._limits.chunk_tokens
        if len(group.slots) == 1:
            return most
        counts = [len(self._live[slot].pending) for slot in group.slots]
        return self._rhythm.width(counts, most, self._limits.ride == "ragged")

    def _admit(self) -> None:
        while (asked := self._line.first()) is not None and len(self._live) < self._limits.slots_max:
            batches = [group.slots for group in self._groups]
            if self._live and not self._memory.fit(asked.need_tokens, batches):
                return
            self._line.leave(asked.request)
            # Its turn comes after one of each that runs: were it first, a stream of short requests would starve them.
            self._live[self._next_slot] = _Live(asked.request, asked.spec, deque(asked.tokens))
            self._memory.reserve(self._next_slot, asked.need_tokens)
            self._next_slot += 1

    def _fly(self, slots: tuple[int, ...], width: int, group: int) -> Segments:
        turns = tuple(self._cut(slot, self._live[slot], width) for slot in slots)
        found = Segments(turns, group if len(turns) > 1 else 0)
        self._flight.append((found, group))
        return found

    def _cut(self, slot: int, live: _Live, width: int) -> Turn:
        count = min(len(live.pending), width)
        tokens = tuple(live.pending.popleft() for _ in range(count))
        turn = Turn(slot, live.position, tokens, not live.pending, live.spec if live.position == 0 else None)
        live.position += count
        live.flying = turn.sample
        live.passes += 1
        live.chunks.append(count)
        return turn

    # ------------------------------------------------------------ who rides with whom

    def _arrange(self) -> None:
        """Give rows to groups, when an answer began or ended."""
        if self._arranged:
            return
        self._arranged = True
        answering = [slot for slot, live in self._live.items() if live.answering]
        placed = {slot for group in self._groups for slot in group.slots}
        wanted = len(answering) if self._limits.ride == "alone" else self._rhythm.batches(len(answering))
        for slot in answering:
            if slot not in placed:
                self._place(slot, wanted)
        while len(self._groups) > wanted and self._dissolve_one():
            pass
        while len(self._groups) < wanted and self._limits.ride != "alone" and self._move_one(_Group(0, [])):
            pass
        while self._groups and self._move_one(min(self._groups, key=lambda group: len(group.slots))):
            pass

    def _place(self, slot: int, wanted: int) -> None:
        open_groups = [group for group in self._groups if self._fits(slot, group)]
        if len(self._groups) < wanted or not open_groups:
            self._groups.append(_Group(self._next_group, [slot]))
            self._next_group += 1
        else:
            min(open_groups, key=lambda group: len(group.slots)).slots.append(slot)

    def _dissolve_one(self) -> bool:
        """Move the rows of the smallest group at rest to the others; False where that cannot be."""
        at_rest = sorted((group for group in self._groups if not group.flying), key=lambda group: len(group.slots))
        for group in at_rest:
            others = [other for other in self._groups if other is not group]
            into = min(others, key=lambda other: len(other.slots), default=None)
            if into is not None and all(self._fits(slot, into, also=group.slots) for slot in group.slots):
                into.slots += group.slots
                self._groups.remove(group)
                return True
        return False

    def _move_one(self, into: _Group) -> bool:
        """Move a row of the largest group at rest to `into`, if that makes them more alike."""
        at_rest = [group for group in self._groups if not group.flying]
        largest = max(at_rest, key=lambda group: len(group.slots), default=None)
        if largest is None or len(largest.slots) - len(into.slots) < 2:
            return False
        slot = largest.slots[-1]
        if into.slots and not self._fits(slot, into):
            return False
        largest.slots.remove(slot)
        into.slots.append(slot)
        if not into.number:
            into.number = self._next_group
            self._next_group += 1
            self._groups.append(into)
        return True

    def _fits(self, slot: int, group: _Group, also: Sequence[int] = ()) -> bool:
        """Whether `group` with this slot, and others, is within the memory: all rows are as long as the longest."""
        rows = {*group.slots, *also, slot}
        if self._limits.ride == "alone" or len(rows) > self._limits.chunk_tokens:
            return False
        others = [other.slots for other in self._groups if other is not group]
        return self._memory.fit(0, [*others, rows])

    # ------------------------------------------------------------ what comes back

    def returned(self, rows: Sequence[Returned], stage_s: Sequence[float] = ()) -> list[Progress | None]:
        """The oldest frame came back; `stage_s` are the seconds of each stage. None for a slot released meanwhile.

        Raises ValueError when it is not the oldest frame's slots: the ring broke its order.
        """
        if not self._flight or [turn.slot for turn in self._flight[0][0].turns] != [row.slot for row in rows]:
            raise ValueError(f"slots {', '.join(str(row.slot) for row in rows)} came back out of order")
        sent, number = self._flight.popleft()
        self._rhythm.saw(len(sent.turns) * sent.width, stage_s)
        for group in self._groups:
            if group.number == number:
                group.flying = False
        return [self._took(row) for row in rows]

    def _took(self, row: Returned) -> Progress | None:
        live = self._live.get(row.slot)
        if live is None:
            return None
        live.prompt_done = min(live.spec.prompt_tokens, live.prompt_done + live.chunks.popleft())
        if row.tokens or row.finish:
            live.flying = False
            live.pending.extend(row.tokens)
            if not live.answering:
                live.answering, self._arranged = True, False
        if row.finish:
            self._let_go(row.slot)
        return Progress(live.request, live.passes, live.prompt_done, bool(row.finish))

    def _let_go(self, slot: int) -> None:
        del self._live[slot]
        self._memory.let_go(slot)
        self._released.append(slot)
        self._arranged = False
        for group in self._groups:
            if slot in group.slots:
                group.slots.remove(slot)
        self._groups = [group for group in self._groups if group.slots]
