"""Which live slots begin from what is kept, who waits for whom, and what of a slot is kept. Pure.

Laws: a slot computes at least its last prompt token; it waits only for one that is begun and will compute what it needs
next; what is kept of a slot was sent in frames before the one that orders it; kept prefixes take only the room that
live slots leave, but for those that a slot is about to begin from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ringleader.shard.prefixes import BLOCK_TOKENS, ROOT, KeptOrder, Prefix, Prefixes, name_of

TURN_TOKENS = 16  # at a prompt's end, what opens the answer: templates write it otherwise when the answer is history


@dataclass(slots=True)
class _Slot:
    """A live slot: what is known of its tokens, and the names of their whole blocks."""

    tokens: list[int]
    prompt: int  # tokens that are known when it begins
    opening: int
    names: list[bytes] = field(default_factory=list)
    begun: bool = False
    position: int = 0  # tokens that were sent, drafts not counted
    marks: set[int] = field(default_factory=set)  # positions where states are to be kept
    alone: bool = False  # a shard lacked what it was to begin from: it computes all itself

    def name_blocks(self) -> None:
        """Name the whole blocks that have no names yet."""
        for start in range(len(self.names) * BLOCK_TOKENS, len(self.tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            parent = self.names[-1] if self.names else ROOT
            self.names.append(name_of(parent, self.tokens[start : start + BLOCK_TOKENS]))

    @property
    def most(self) -> int:
        """Tokens that it may begin from."""
        return self.prompt - 1

    def common(self, other: _Slot) -> int:
        """Tokens that both begin with, in whole blocks, and that this one may begin from."""
        low, high = 0, min(self.most // BLOCK_TOKENS, len(other.names))
        while low < high:
            middle = (low + high + 1) // 2
            alike = self.names[middle - 1] == other.names[middle - 1]
            low, high = (middle, high) if alike else (low, middle - 1)
        return low * BLOCK_TOKENS

    def path(self) -> list[bytes]:
        """Names of the blocks of all tokens that were sent, the last of which may be short."""
        blocks, rest = divmod(self.position, BLOCK_TOKENS)
        path = self.names[:blocks]
        if rest:
            path.append(name_of(path[-1] if path else ROOT, self.tokens[blocks * BLOCK_TOKENS : self.position]))
        return path


class Sharing:
    """The live slots beside the tree of what is kept. Where `keeps` is False nothing ever is."""

    def __init__(self, keeps: bool = True, state_tokens: int = 0) -> None:
        self._keeps = keeps
        self._kept = Prefixes(state_tokens)
        self._slots: dict[int, _Slot] = {}
        self._room = 0
        self._advanced: list[int] = []  # slots whose prompts went on since the last frame

    @property
    def kept_tokens(self) -> int:
        """Room that kept prefixes take."""
        return self._kept.tokens

    def kept_names(self) -> frozenset[bytes]:
        """Of the blocks that all shards keep."""
        return self._kept.names()

    def take_orders(self) -> tuple[KeptOrder, ...]:
        """What to tell the shards with the next frame; each order is given once."""
        return self._kept.take_orders()

    def expect(self, slot: int, tokens: Sequence[int], opening: int = 0) -> None:
        """A slot is to begin, with these tokens; the last `opening` of them open its answer."""
        mine = self._slots[slot] = _Slot(list(tokens), len(tokens), opening)
        if not self._keeps:
            return
        mine.name_blocks()
        for other in self._slots.values() if self._kept.state_tokens else ():
            # Who computes the same just now keeps a state for this one where they part.
            if other.begun and other.position < (shared := mine.common(other)) < other.prompt:
                other.marks.add(shared)

    def awaits(self, slot: int) -> bool:
        """Whether another slot is just about to compute what this one needs: it would be computed twice."""
        mine = self._slots[slot]
        if mine.begun or mine.alone or not self._keeps:
            return False
        have = self._kept.depth(mine.names) * BLOCK_TOKENS
        for other in self._slots.values():
            if other.begun and other.position < other.prompt:
                shared = mine.common(other)
                if self._kept.state_tokens and any(other.position < mark <= shared for mark in other.marks):
                    return True
                if not self._kept.state_tokens and have < shared and other.position < have + BLOCK_TOKENS:
                    return True
        return False

    def begin(self, slot: int) -> Prefix | None:
        """The slot begins now, after this kept prefix."""
        mine = self._slots[slot]
        mine.begun = True
        if not self._keeps:
            return None
        found = None if mine.alone else self._kept.longest(mine.tokens, mine.names, mine.most)
        mine.position = found.tokens if found else 0
        if self._kept.state_tokens:
            parts = self._kept.depth(mine.names) * BLOCK_TOKENS  # others went on otherwise here, and more may come
            settled = (mine.prompt - mine.opening - TURN_TOKENS) // BLOCK_TOKENS * BLOCK_TOKENS
            mine.marks = {mark for mark in (parts, settled) if mine.position < mark <= mine.most}
        return found

    def stretch(self, slot: int, count: int) -> int:
        """How many of the next `count` tokens to send at once: at a mark the frame must end."""
        mine = self._slots[slot]
        return min([count, *(mark - mine.position for mark in mine.marks if mark > mine.position)])

    def reach(self, slot: int, position: int) -> None:
        """All its tokens up to this position are sent; what was guessed counts when it turned out to be right."""
        mine = self._slots[slot]
        if mine.position < position <= mine.prompt:
            self._advanced.append(slot)
        mine.position = position

    def grow(self, slot: int, tokens: Sequence[int]) -> None:
        """The slot's answer goes on with these tokens."""
        self._slots[slot].tokens.extend(tokens)

    def fit(self, room: int) -> None:
        """Before a frame: live slots leave so much room. Prompts that went on are kept as far as they were sent."""
        self._room = max(0, room)
        if self._kept.tokens > self._room:
            self._kept.make_room(self._room, self._needed())
        advanced, self._advanced = self._advanced, []
        for slot in advanced:
            if (mine := self._slots.get(slot)) is not None:
                self._keep(slot, mine, mine.position in mine.marks)

    def end(self, slot: int, room: int) -> None:
        """The slot is to be released; what it computed is kept in the room that the others leave."""
        self._room = max(0, room)
        mine = self._slots.pop(slot)
        if mine.begun:
            self._keep(slot, mine, self._kept.state_tokens > 0)

    def _keep(self, slot: int, mine: _Slot, state: bool) -> None:
        if self._keeps:
            mine.name_blocks()
            self._kept.keep(slot, mine.path(), mine.position, self._room, state, self._needed)

    def _needed(self) -> set[bytes]:
        """What slots are about to begin from."""
        waiting = [slot for slot in self._slots.values() if not slot.begun]
        return {name for slot in waiting for name in slot.names[: self._kept.depth(slot.names)]}

    def distrust(self) -> None:
        """A shard lacked something that should be kept: nothing is, any longer."""
        self._kept.give_up()

    def begin_anew(self, slot: int, anew: int) -> None:
        """A shard lacked what this slot began from: it begins anew under another number, from its first token."""
        self.distrust()
        mine = self._slots.pop(slot)
        self.expect(anew, mine.tokens[: mine.prompt], mine.opening)
        self._slots[anew].alone = True
