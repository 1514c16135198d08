"""Which answers share their passes: as many groups as pay, alike in size, each within the memory. Pure.

A group whose frame is in the ring keeps its rows until it is back, but for those that end; it may be joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ringleader.shard.waiting import Reservations


@dataclass(slots=True, eq=False)
class Group:
    """Answers that run together; one of a single slot is sent alone. `sent` are the rows of its batch in the shards.
    `parted` says that its row is still one of another batch there."""

    number: int
    slots: list[int]
    flying: bool = False
    sent: list[int] = field(default_factory=list)
    parted: bool = False


@dataclass(slots=True)
class Groups:
    """In order of turns. Rows of one group are `rows_max` at most; `alone` means that no two slots can share."""

    memory: Reservations
    rows_max: int
    alone: bool
    all: list[Group] = field(default_factory=list)
    arranged: bool = True  # no answer began or ended since rows were given to groups
    _made: int = 0

    def __len__(self) -> int:
        return len(self.all)

    def batches(self) -> list[list[int]]:
        """The slots of each group."""
        return [group.slots for group in self.all]

    @property
    def rows(self) -> int:
        return sum(len(group.slots) for group in self.all)

    def ready(self) -> Group | None:
        """Whose turn it is."""
        return next((group for group in self.all if not group.flying), None)

    def go(self, group: Group) -> None:
        """It is sent; its next turn comes after one of each other. Rows that the shards have in its batch come first,
        as they are there: one may have left and come again meanwhile."""
        stay = [slot for slot in group.sent if slot in group.slots]
        group.slots = stay + [slot for slot in group.slots if slot not in stay]
        for other in self.all:
            other.sent = [slot for slot in other.sent if slot not in group.slots]
        if len(group.slots) > 1:
            group.sent = list(group.slots)
        self.all.remove(group)
        self.all.append(group)
        group.flying, group.parted = True, False

    def came_back(self, number: int) -> None:
        for group in self.all:
            if group.number == number:
                group.flying = False

    def leave(self, slot: int) -> None:
        """The slot was released."""
        self.arranged = False
        for group in self.all:
            if slot in group.slots:
                group.slots.remove(slot)
        self.all = [group for group in self.all if group.slots]

    def arrange(self, answering: Sequence[int], count: Callable[[int], int]) -> None:
        """Give rows to groups, when an answer began or ended; `count` says how many groups so many rows want."""
        if self.arranged:
            return
        self.arranged = True
        placed = {slot for group in self.all for slot in group.slots}
        wanted = len(answering) if self.alone else count(len(answering))
        for slot in answering:
            if slot not in placed:
                self._place(slot, wanted)
        while len(self.all) > wanted and self._dissolve_one():
            pass
        while len(self.all) < wanted and not self.alone and self._move_one(Group(0, [])):
            pass
        while self.all and self._move_one(min(self.all, key=lambda group: len(group.slots))):
            pass

    def part(self) -> bool:
        """Let the longest row of a group at rest go on alone, and next: that saves its padding. False where there is
        none, and while one that was parted before has yet to be sent: until then it saves nothing."""
        if any(group.parted for group in self.all):
            return False
        padded = [group for group in self.all if not group.flying and self.memory.padding(group.slots)]
        if not padded:
            return False
        group = max(padded, key=lambda each: self.memory.padding(each.slots))
        longest = max(group.slots, key=self.memory.of)
        group.slots.remove(longest)
        self._add(Group(0, [longest], parted=True))
        self.all.insert(0, self.all.pop())
        return True

    def _add(self, group: Group) -> None:
        self._made += 1
        group.number = self._made
        self.all.append(group)

    def _place(self, slot: int, wanted: int) -> None:
        open_groups = [group for group in self.all if self._fits(slot, group)]
        if len(self.all) < wanted or not open_groups:
            self._add(Group(0, [slot]))
        else:
            min(open_groups, key=lambda group: len(group.slots)).slots.append(slot)

    def _dissolve_one(self) -> bool:
        """Move the rows of the smallest group at rest to the others; False where that cannot be."""
        at_rest = sorted((group for group in self.all if not group.flying), key=lambda group: len(group.slots))
        for group in at_rest:
            others = [other for other in self.all if other is not group]
            into = min(others, key=lambda other: len(other.slots), default=None)
            if into is not None and all(self._fits(slot, into, also=group.slots) for slot in group.slots):
                into.slots += group.slots
                self.all.remove(group)
                return True
        return False

    def _move_one(self, into: Group) -> bool:
        """Move a row of the largest group at rest to `into`, if that makes them more alike."""
        at_rest = [group for group in self.all if not group.flying]
        largest = max(at_rest, key=lambda group: len(group.slots), default=None)
        if largest is None or len(largest.slots) - len(into.slots) < 2:
            return False
        slot = largest.slots[-1]
        if into.slots and not self._fits(slot, into):
            return False
        largest.slots.remove(slot)
        into.slots.append(slot)
        if not into.number:
            self._add(into)
        return True

    def _fits(self, slot: int, group: Group, also: Sequence[int] = ()) -> bool:
        """Whether `group` with this slot, and others, is within the memory: all rows are as long as the longest."""
        rows = {*group.slots, *also, slot}
        if self.alone or len(rows) > self.rows_max:
            return False
        others = [other.slots for other in self.all if other is not group]
        return self.memory.fit(0, [*others, rows])
