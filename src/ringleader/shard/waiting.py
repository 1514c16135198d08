"""Who waits for a slot, in which order, and what memory live slots hold. Pure; whose turn it is stands in batcher.py.

Laws: the line is bounded; who comes first is begun first; what is reserved is at least what the shards hold, in tokens:
the plan gave every shard room for the same number of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ringleader.values import SlotSpec

QUEUE_MAX = 256  # requests that wait for a slot; the master refuses more before they come here


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that waits. `tokens` are its prompt's, and those of its answer that came before."""

    request: str
    tokens: tuple[int, ...]
    spec: SlotSpec

    @property
    def need_tokens(self) -> int:
        """Of memory, when its answer is as long as it may be."""
        return len(self.tokens) - self.spec.resumed_tokens + self.spec.max_tokens  # resumed ones count in max_tokens


class Line:
    """Requests that wait for a slot, the next one first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Asked] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request: str) -> bool:
        return request in self._waiting

    def join(self, asked: Asked) -> bool:
        """Take a request in; False when the line is full."""
        if len(self._waiting) >= QUEUE_MAX:
            return False
        self._waiting[asked.request] = asked
        return True

    def first(self) -> Asked | None:
        """Whose turn it is to get a slot."""
        return next(iter(self._waiting.values()), None)

    def leave(self, request: str) -> bool:
        """Take a request out; False when it does not wait."""
        return self._waiting.pop(request, None) is not None

    def clear(self) -> None:
        self._waiting.clear()


class Reservations:
    """Tokens of memory that each slot may use, and what batches add: all rows of one are as long as the longest."""

    def __init__(self, tokens_max: int) -> None:
        self._tokens_max = tokens_max
        self._slots: dict[int, int] = {}

    def reserve(self, slot: int, tokens: int) -> None:
        self._slots[slot] = tokens

    def let_go(self, slot: int) -> None:
        del self._slots[slot]

    def padding(self, rows: Collection[int]) -> int:
        """What a batch of these slots adds to what they hold one by one."""
        sizes = [self._slots[row] for row in rows]
        return len(sizes) * max(sizes, default=0) - sum(sizes)

    def fit(self, more: int, batches: Iterable[Collection[int]]) -> bool:
        """Whether `more` tokens fit beside all slots, which ride in these batches."""
        padding = sum(self.padding(rows) for rows in batches)
        return sum(self._slots.values()) + padding + more <= self._tokens_max
