"""The head's tree of kept prefixes: blocks of tokens that all shards keep, and which go first. Pure.

Laws: a block is kept only with all blocks before it; what was used longest ago goes first, and a block goes before the
blocks that it follows; orders hold one after the other, in the order in which they are given.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

BLOCK_TOKENS = 32  # the grain of what is shared: a finer one costs names, a coarser one computes more again
NAME_BYTES = 16
ROOT = b""  # the name of no tokens at all: where every prefix begins
SLACK_TOKENS = 8 * BLOCK_TOKENS  # freed at once where memory is short: shards copy what they keep of a cut run
STATES_SHARE = 2  # states take at most one part in so many of the room


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `tokens` tokens of a sequence; the name stands for all of them."""

    name: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep positions `start` to `stop` of a slot as blocks of these names, the first of which follows `parent`; the
    last may be short. With `state` also, at `stop` where the slot stands, what layers hold that have no positions."""

    slot: int
    parent: bytes
    start: int
    stop: int
    names: tuple[bytes, ...]
    state: bool = False

    @property
    def last(self) -> bytes:
        """The name of all tokens up to `stop`."""
        return self.names[-1] if self.names else self.parent


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the blocks of these names, and of the names in `states` only the states."""

    names: tuple[bytes, ...]
    states: tuple[bytes, ...] = ()


KeptOrder = Keep | Drop


@dataclass(frozen=True, slots=True)
class Orders:
    """What a frame orders before its segments: what to keep and to drop, and then which slots to release."""

    released: tuple[int, ...] = ()
    kept: tuple[KeptOrder, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.released or self.kept)


NO_ORDERS = Orders()


def name_of(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The name of the prefix that is `parent`'s tokens and then these."""
    plain = array("I", tokens)
    if sys.byteorder == "big":
        plain.byteswap()
    return blake2b(parent + plain.tobytes(), digest_size=NAME_BYTES).digest()


@dataclass(slots=True)
class _Node:
    parent: bytes
    tokens: int
    shorter: dict[bytes, int] = field(default_factory=dict)  # blocks behind it that are no whole ones: their lengths


class Prefixes:
    """What is kept. With `state_tokens` the model has layers whose caches cannot be cut at a position: a prefix serves
    only where their states were kept, and those of one position take the room of so many tokens."""

    def __init__(self, state_tokens: int = 0) -> None:
        self.tokens = 0  # of room that is taken
        self.state_tokens = state_tokens
        self._root = _Node(ROOT, 0)
        self._nodes: OrderedDict[bytes, _Node] = OrderedDict()  # used last stands last; all before their parents
        self._states: OrderedDict[bytes, None] = OrderedDict()  # names with states, used last stands last
        self._orders: list[KeptOrder] = []

    def __contains__(self, name: bytes) -> bool:
        return name in self._nodes

    def names(self) -> frozenset[bytes]:
        """Of all blocks that shards keep, when they have carried the orders out."""
        return frozenset(self._nodes)

    def take_orders(self) -> tuple[KeptOrder, ...]:
        """What to tell the shards; each order is given once."""
        orders, self._orders = tuple(self._orders), []
        return orders

    # ------------------------------------------------------------ finding

    def depth(self, names: Sequence[bytes]) -> int:
        """How many of these are kept, where each follows the one before it."""
        low, high = 0, len(names)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if names[middle - 1] in self._nodes else (low, middle - 1)
        return low

    def longest(self, tokens: Sequence[int], names: Sequence[bytes], most: int) -> Prefix | None:
        """The longest kept prefix of `tokens` (whose whole blocks have these names) of at most `most` tokens. It counts
        as used now."""
        deep = self.depth(names)
        self._use(names[:deep])
        blocks = min(deep, most // BLOCK_TOKENS)
        if not self.state_tokens:
            return Prefix(names[blocks - 1], blocks * BLOCK_TOKENS) if blocks else None
        for count in range(blocks, -1, -1):
            found = self._short_after(tokens, names[:count], most)
            if found is None and count and names[count - 1] in self._states:
                found = Prefix(names[count - 1], count * BLOCK_TOKENS)
            if found is not None:
                self._states.move_to_end(found.name)
                return found
        return None

    def _short_after(self, tokens: Sequence[int], path: Sequence[bytes], most: int) -> Prefix | None:
        """A kept block behind this path that is no whole one, if the tokens go on with it."""
        parent, start = path[-1] if path else ROOT, len(path) * BLOCK_TOKENS
        shorter = (self._nodes[parent] if path else self._root).shorter
        for length in sorted(set(shorter.values()), reverse=True):
            if start + length <= most:
                name = name_of(parent, tokens[start : start + length])
                if name in shorter and name in self._states:
                    self._use([*path, name])
                    return Prefix(name, start + length)
        return None

    def _use(self, path: Sequence[bytes]) -> None:
        for name in reversed(path):
            self._nodes.move_to_end(name)

    # ------------------------------------------------------------ keeping and dropping

    def keep(
        self,
        slot: int,
        path: Sequence[bytes],
        tokens: int,
        room: int,
        state: bool = False,
        spared: Callable[[], set[bytes]] = set,
    ) -> None:
        """Keep of the slot's first `tokens` tokens what is not kept and fits into `room`; `path` names their blocks,
        the last of which may be short. What is kept counts as used now. `spared` as in `make_room`."""
        state = state and bool(path) and path[-1] not in self._states and self._room_for_state(room)
        if not state and tokens % BLOCK_TOKENS:  # a short block would serve nobody
            path, tokens = path[:-1], tokens - tokens % BLOCK_TOKENS
        old = self.depth(path)
        self._use(path[:old])
        start, extra = min(tokens, old * BLOCK_TOKENS), self.state_tokens if state else 0
        new = tokens - start
        if self.tokens + new + extra > room:
            self.make_room(room - new - extra, {*path[:old], *spared()})
        fitting = room - self.tokens - extra
        if new > fitting:
            state, new = False, max(0, fitting) // BLOCK_TOKENS * BLOCK_TOKENS
        names = tuple(path[old : old + -(-new // BLOCK_TOKENS)])
        if names or (state and fitting >= 0):
            self._add(Keep(slot, path[old - 1] if old else ROOT, start, start + new, names, state))
            self._use(path[: old + len(names)])

    def _room_for_state(self, room: int) -> bool:
        """Whether one more state has its share of the room; those that were used longest ago may have to go for it."""
        share = room // STATES_SHARE - self.state_tokens
        if share >= 0:
            self._drop_states(share)
        return share >= 0

    def _add(self, order: Keep) -> None:
        parent, start = order.parent, order.start
        for name in order.names:
            length = min(BLOCK_TOKENS, order.stop - start)
            self._nodes[name] = _Node(parent, length)
            if length < BLOCK_TOKENS:
                (self._nodes[parent] if parent else self._root).shorter[name] = length
            self.tokens += length
            parent, start = name, start + length
        if order.state:
            self._states[order.last] = None
            self.tokens += self.state_tokens
        self._orders.append(order)

    def make_room(self, most: int, spared: Collection[bytes] = ()) -> None:
        """Take at most `most` tokens of room, or no less than what is spared; whoever is spared, so are his parents."""
        if self.tokens <= max(0, most):
            return
        excess = self.tokens - max(0, most - SLACK_TOKENS)
        dropped: list[bytes] = []
        for name, node in self._nodes.items():
            if excess <= 0:
                break
            if name not in spared:
                excess -= node.tokens + (self.state_tokens if name in self._states else 0)
                dropped.append(name)
        self._drop(dropped)

    def give_up(self) -> None:
        """Keep nothing of all this any longer."""
        self._drop(list(self._nodes))

    def _drop(self, names: Sequence[bytes]) -> None:
        for name in names:
            node = self._nodes.pop(name)
            self.tokens -= node.tokens
            if name in self._states:
                del self._states[name]
                self.tokens -= self.state_tokens
            parent = self._nodes.get(node.parent, self._root)
            parent.shorter.pop(name, None)
        if names:
            self._orders.append(Drop(tuple(names)))

    def _drop_states(self, most: int) -> None:
        """Let the states take at most `most` tokens of room; their blocks stay."""
        dropped = []
        while self._states and len(self._states) * self.state_tokens > most:
            name, _ = self._states.popitem(last=False)
            self.tokens -= self.state_tokens
            dropped.append(name)
        if dropped:
            self._orders.append(Drop((), tuple(dropped)))
