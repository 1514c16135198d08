"""Who waits for a slot, in which order, and what memory live slots hold. Pure; whose turn it is stands in batcher.py.

Laws: the line is bounded; a request's place in it never changes, and only so many later ones may come before it, for
their priority or because they have room where it has none; what is reserved is at least what the shards hold, in
tokens: the plan gave every shard room for the same number of them.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ringleader.config import QUEUE_LIMIT
from ringleader.values import SlotSpec

QUEUE_MAX = QUEUE_LIMIT  # requests that wait for a slot; the master refuses more before they come here
# Later requests that one lets pass for each step of priority between them: none waits for ever, whatever comes, and
# where many wait even one step tells.
YIELDS = 32
PASSERS_MAX = 32  # later requests that one lets pass which have room where it has none; then all wait until it has


@dataclass(frozen=True, slots=True)
class Progress:
    """What a returned segment meant for its request. `drafted` and `accepted` tokens are those of all its passes;
    `cached` tokens of its prompt were not computed for it; `shard_s`, told when it has ended, are the seconds that each
    shard computed in its passes."""

    request: str
    passes: int
    prompt_done: int
    ended: bool
    drafted: int = 0
    accepted: int = 0
    cached: int = 0
    shard_s: tuple[float, ...] = ()


@dataclass(slots=True, eq=False)
class Asked:
    """A request, while it waits and while it runs. `tokens` are its prompt's, then those of its answer so far.

    `place` is its rank among all: lower goes first. `flying` segments of a slot that was taken from it are in the ring.
    """

    request: str
    tokens: list[int]
    spec: SlotSpec
    priority: int = 0
    place: int = 0
    passes: int = 0
    prompt_done: int = 0
    cached: int = 0  # tokens that its first slot did not compute: kept prefixes had them
    flying: int = 0
    preempted: int = 0
    drafted: int = 0
    accepted: int = 0
    shard_s: list[float] = field(default_factory=list)  # that each shard computed in its passes
    passers: int = 0  # later ones that were let in before it since it has waited

    @property
    def tokens_max(self) -> int:
        """Of prompt and answer together, when it is as long as it may be."""
        return self.spec.prompt_tokens + self.spec.max_tokens

    def took(self, stage_s: Sequence[float]) -> None:
        """Count a pass that took each shard so long; nothing where that is not told."""
        if len(self.shard_s) < len(stage_s):
            self.shard_s += [0.0] * (len(stage_s) - len(self.shard_s))
        for index, seconds in enumerate(stage_s):
            self.shard_s[index] += seconds

    def progress(self, *, ended: bool) -> Progress:
        """What has become of it by now."""
        return Progress(
            request=self.request,
            passes=self.passes,
            prompt_done=self.prompt_done,
            ended=ended,
            drafted=self.drafted,
            accepted=self.accepted,
            cached=self.cached,
            shard_s=tuple(self.shard_s) if ended else (),
        )


@dataclass(slots=True)
class Line:
    """Requests that wait for a slot, in order of their places."""

    _waiting: list[Asked] = field(default_factory=list)
    _came: int = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request: str) -> bool:
        return any(asked.request == request for asked in self._waiting)

    def join(self, asked: Asked) -> bool:
        """Take a request in and give it its place; False when the line is full."""
        if len(self._waiting) >= QUEUE_MAX:
            return False
        self._came += 1
        asked.place = self._came + asked.priority * YIELDS
        self.rejoin(asked)
        return True

    def rejoin(self, asked: Asked) -> None:
        """Take a request back whose slot was taken from it: it has its place, and is never refused."""
        asked.passers = 0
        bisect.insort_right(self._waiting, asked, key=lambda each: each.place)

    def first(self) -> Asked | None:
        """Whose turn it is to get a slot; nobody passes one whose last segments are still on their way back."""
        return self._waiting[0] if self._waiting and not self._waiting[0].flying else None

    def passer(self, has_room: Callable[[Asked], bool]) -> Asked | None:
        """Who may get a slot before the first, which has no room yet: the next one that has, so many times."""
        first, others = self._waiting[0], self._waiting[1:]
        if first.passers >= PASSERS_MAX:
            return None
        found = next((each for each in others if not each.flying and has_room(each)), None)
        first.passers += found is not None
        return found

    def leave(self, request: str) -> bool:
        """Take a request out; False when it does not wait."""
        before = len(self._waiting)
        self._waiting = [asked for asked in self._waiting if asked.request != request]
        return len(self._waiting) < before

    def clear(self) -> None:
        self._waiting.clear()


@dataclass(slots=True)
class Reservations:
    """Tokens of memory that each slot may use, and what batches add: all rows of one are as long as the longest.

    Caches grow by `step` tokens, and a slot is worth `slot` before it has any. An answer gets room for what it has
    and `ahead` tokens more, not for all that it might become: most end long before.
    """

    tokens_max: int
    step: int = 1
    ahead: int = 64
    slot: int = 0
    _slots: dict[int, int] = field(default_factory=dict)
    _most: dict[int, int] = field(default_factory=dict)

    def of(self, slot: int) -> int:
        """What the slot holds."""
        return self._slots[slot]

    def room(self, slot: int) -> int:
        """How many tokens it may have now."""
        return self._slots[slot] - self.slot

    def size(self, tokens: int, tokens_max: int) -> int:
        """What a sequence of `tokens` gets that may become `tokens_max`."""
        return self.slot + -(-min(tokens + self.ahead, tokens_max) // self.step) * self.step

    def whole(self, asked: Asked) -> int:
        """What the tokens of a request need at its longest."""
        return self.size(asked.tokens_max, asked.tokens_max) - self.slot

    def reserve(self, slot: int, tokens: int, tokens_max: int) -> None:
        """Room for a slot that has so many tokens now, and will not have more than `tokens_max`."""
        self._slots[slot] = self.size(tokens, tokens_max)
        self._most[slot] = self.size(tokens_max, tokens_max)

    def let_go(self, slot: int) -> None:
        del self._slots[slot], self._most[slot]

    def rename(self, slot: int, anew: int) -> None:
        """The slot goes on under another number."""
        self._slots[anew], self._most[anew] = self._slots.pop(slot), self._most.pop(slot)

    def left(self, batches: Iterable[Collection[int]]) -> int:
        """Tokens that neither slots nor their batches' padding take."""
        return self.tokens_max - sum(self._slots.values()) - sum(self.padding(rows) for rows in batches)

    def padding(self, rows: Collection[int]) -> int:
        """What a batch of these slots adds to what they hold one by one."""
        sizes = [self._slots[row] for row in rows]
        return len(sizes) * max(sizes, default=0) - sum(sizes)

    def fit(self, more: int, batches: Iterable[Collection[int]]) -> bool:
        """Whether `more` tokens fit beside all slots, which ride in these batches."""
        return more <= self.left(batches)

    def admits(self, asked: Asked, batches: Iterable[Collection[int]], freed: int = 0) -> bool:
        """Whether a request may begin, when `freed` tokens were given back before.

        Those that run keep room for their next growth, and one that had to give its slot up comes back only where it
        can go on for a while: else slots would be given and taken for nothing.
        """
        tokens = len(asked.tokens) + (4 * self.ahead if asked.preempted else 0)
        growth = sum(min(self.ahead, self._most[slot] - size) for slot, size in self._slots.items())
        return self.fit(self.size(tokens, asked.tokens_max) + growth - freed, batches)
