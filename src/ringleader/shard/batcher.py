"""Decides what the head sends next: whose turn it is, how prompts are cut, which slots are let go. Pure.

Laws: a slot has at most one sampling segment in the ring; its segments leave in order of position; turns go
round, so that no request waits for another's end; a released slot is never used again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from ringleader.values import Finish, SlotSpec

PROGRESS_DEADLINE_S = 60.0  # a chunk of 512 tokens on a slow CPU takes some seconds; a minute is a death
QUEUE_MAX = 256  # requests that wait for a slot; the master refuses more before they come here


@dataclass(frozen=True, slots=True)
class Limits:
    """`chunk_tokens` a prompt frame at most; `flight_max` frames in the ring at once; `slots_max` live slots;
    `kv_tokens_max` tokens of prompt and answer reserved over all live slots (the plan's KV budget)."""

    chunk_tokens: int = 512
    flight_max: int = 1
    slots_max: int = 16
    kv_tokens_max: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Turn:
    """One segment to send. `sample` asks the tail for a token; `spec` goes with a slot's first segment."""

    slot: int
    position: int
    tokens: tuple[int, ...]
    sample: bool
    spec: SlotSpec | None


@dataclass(slots=True)
class _Live:
    request: str
    spec: SlotSpec
    pending: deque[int]  # tokens known but not yet sent
    position: int = 0  # tokens sent
    flying: bool = False  # a sampling segment is in the ring
    passes: int = 0
    prompt_done: int = 0
    reserved: int = 0
    chunks: deque[int] = field(default_factory=deque)  # sizes of its segments in the ring, oldest first


@dataclass(frozen=True, slots=True)
class Progress:
    """What a returned frame meant for its request."""

    request: str
    passes: int
    prompt_done: int
    ended: bool


class Batcher:
    """Requests in, turns out. Every turn is answered by `returned` once, in order of sending."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: OrderedDict[str, tuple[tuple[int, ...], SlotSpec]] = OrderedDict()
        self._live: OrderedDict[int, _Live] = OrderedDict()  # in order of turns: the next one first
        self._released: list[int] = []
        self._flight: deque[int] = deque()  # slots of the frames in the ring, oldest first
        self._next_slot = 1

    @property
    def in_flight(self) -> int:
        return len(self._flight)

    @property
    def live(self) -> int:
        return len(self._live)

    def submit(self, request: str, prompt: tuple[int, ...], spec: SlotSpec) -> bool:
        """Take a request; False when the queue is full or the name is taken."""
        if len(self._waiting) >= QUEUE_MAX or not prompt or self._known(request):
            return False
        self._waiting[request] = (prompt, spec)
        return True

    def _known(self, request: str) -> bool:
        return request in self._waiting or any(live.request == request for live in self._live.values())

    def cancel(self, request: str) -> bool:
        """Forget a request; its slot is released with the next frame. False when it is not known."""
        if self._waiting.pop(request, None) is not None:
            return True
        for slot, live in self._live.items():
            if live.request == request:
                self._let_go(slot)
                return True
        return False

    def cancel_all(self) -> None:
        self._waiting.clear()
        for slot in list(self._live):
            self._let_go(slot)

    def take_released(self) -> tuple[int, ...]:
        """Slots that the next frame must name as released; each is given once."""
        released, self._released = tuple(self._released), []
        return released

    def next_turn(self) -> Turn | None:
        """The next segment to send, or None while nothing may be sent."""
        self._admit()
        if len(self._flight) >= self._limits.flight_max:
            return None
        for slot, live in self._live.items():
            if not live.flying and live.pending:
                self._live.move_to_end(slot)
                return self._cut(slot, live)
        return None

    def _admit(self) -> None:
        while self._waiting and len(self._live) < self._limits.slots_max:
            request, (prompt, spec) = next(iter(self._waiting.items()))
            need = len(prompt) - spec.resumed_tokens + spec.max_tokens  # resumed tokens count in max_tokens already
            if self._live and sum(live.reserved for live in self._live.values()) + need > self._limits.kv_tokens_max:
                return
            del self._waiting[request]
            # Its turn comes after one of each that runs: were it first, a stream of short requests would starve them.
            self._live[self._next_slot] = _Live(request, spec, deque(prompt), reserved=need)
            self._next_slot += 1

    def _cut(self, slot: int, live: _Live) -> Turn:
        count = min(len(live.pending), self._limits.chunk_tokens)
        tokens = tuple(live.pending.popleft() for _ in range(count))
        turn = Turn(slot, live.position, tokens, not live.pending, live.spec if live.position == 0 else None)
        live.position += count
        live.flying = turn.sample
        live.passes += 1
        live.chunks.append(count)
        self._flight.append(slot)
        return turn

    def returned(self, slot: int, tokens: tuple[int, ...], finish: Finish) -> Progress | None:
        """The oldest frame came back. None when its slot was released meanwhile.

        Raises ValueError when it is not the oldest frame's slot: the ring broke its order.
        """
        if not self._flight or self._flight[0] != slot:
            raise ValueError(f"slot {slot} came back out of order")
        self._flight.popleft()
        live = self._live.get(slot)
        if live is None:
            return None
        live.prompt_done = min(live.spec.prompt_tokens, live.prompt_done + live.chunks.popleft())
        if tokens or finish:
            live.flying = False
            live.pending.extend(tokens)
        if finish:
            self._let_go(slot)
        return Progress(live.request, live.passes, live.prompt_done, bool(finish))

    def _let_go(self, slot: int) -> None:
        del self._live[slot]
        self._released.append(slot)
