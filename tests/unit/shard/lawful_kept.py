"""What shards would keep if they carried a batcher's orders out, and the laws of these orders, checked at each."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringleader.shard.prefixes import BLOCK_TOKENS, Keep, KeptOrder, Orders, name_of


@dataclass
class Store:
    """Names of kept blocks, with all tokens up to their ends; names with states. `saved` tokens were not computed."""

    state_tokens: int = 0
    blocks: dict[bytes, tuple[int, ...]] = field(default_factory=lambda: {b"": ()})
    states: set[bytes] = field(default_factory=set)
    room: int = 0
    saved: int = 0
    dropped: int = 0

    def carry_out(self, orders: Orders, sent: dict[int, list[int]]) -> None:
        """`sent` are the tokens of each slot that went out in earlier frames."""
        for order in orders.kept:
            self._one(order, sent)

    def _one(self, order: KeptOrder, sent: dict[int, list[int]]) -> None:
        if isinstance(order, Keep):
            self._keep(order, sent[order.slot])
            return
        for name in (*order.states, *(name for name in order.names if name in self.states)):
            self.states.remove(name)
            self.room -= self.state_tokens
        for name in order.names:
            tokens = self.blocks.pop(name)
            self.dropped += 1
            self.room -= len(tokens) % BLOCK_TOKENS or BLOCK_TOKENS

    def _keep(self, order: Keep, sent: list[int]) -> None:
        assert order.stop <= len(sent), "what is kept was sent in earlier frames"
        assert not order.state or order.stop == len(sent), "a state is that of where the slot stands"
        name, at, parent = order.parent, order.start, order.parent
        assert self.blocks[name] == tuple(sent[:at]), "it follows what is kept, and that is the slot's own beginning"
        for name in order.names:
            assert name not in self.blocks, "kept twice"
            block = sent[at : min(at + BLOCK_TOKENS, order.stop)]
            at += len(block)
            self.blocks[name] = tuple(sent[:at])
            assert name == name_of(parent, block)
            self.room += len(block)
            parent = name
        assert at == order.stop
        if order.state:
            assert name not in self.states
            self.states.add(name)
            self.room += self.state_tokens

    def begin(self, name: bytes, position: int, tokens: list[int]) -> None:
        """A slot of these tokens begins at `position` with what this name stands for."""
        assert self.blocks[name] == tuple(tokens[:position])
        assert position < len(tokens), "of the last token the logits are wanted"
        assert not name or not self.state_tokens or name in self.states
        self.saved += position

    def whole(self) -> bool:
        """Whether every block's parents are kept too."""
        ends = set(self.blocks.values())
        return all(tokens[: (len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS] in ends for tokens in ends)
