"""The tree of kept prefixes against a list of whole sequences, which does the same slowly."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.shard.prefixes import BLOCK_TOKENS, ROOT, Drop, Keep, Prefixes, name_of

Tokens = tuple[int, ...]


def names_of(tokens: Tokens) -> list[bytes]:
    names: list[bytes] = []
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        names.append(name_of(names[-1] if names else ROOT, tokens[start : start + BLOCK_TOKENS]))
    return names


def path_of(tokens: Tokens) -> list[bytes]:
    """Names of whole blocks, and of the short one at the end."""
    names, rest = names_of(tokens), len(tokens) % BLOCK_TOKENS
    return [*names, name_of(names[-1] if names else ROOT, tokens[-rest:])] if rest else names


@dataclass
class Naive:
    """All kept beginnings as tuples of tokens, used last standing last; those with states."""

    kept: list[Tokens] = field(default_factory=list)
    states: list[Tokens] = field(default_factory=list)
    names: dict[bytes, Tokens] = field(default_factory=dict)

    def carry_out(self, prefixes: Prefixes, tokens: Tokens) -> None:
        for order in prefixes.take_orders():
            if isinstance(order, Keep):
                for at, name in enumerate(order.names):
                    self.names[name] = tokens[: min(order.stop, order.start + (at + 1) * BLOCK_TOKENS)]
                    self.kept.append(self.names[name])
                if order.state:
                    self.states.append(tokens[: order.stop])
            else:
                assert isinstance(order, Drop)
                for name in (*order.states, *order.names):
                    self.states = [each for each in self.states if each != self.names[name]]
                for name in order.names:
                    self.kept.remove(self.names.pop(name))

    def longest(self, tokens: Tokens, most: int, stateful: bool) -> int:
        usable = self.states if stateful else self.kept
        return max((len(each) for each in usable if len(each) <= most and tokens[: len(each)] == each), default=0)

    def room(self, state_tokens: int) -> int:
        return sum(len(each) % BLOCK_TOKENS or BLOCK_TOKENS for each in self.kept) + state_tokens * len(self.states)


# Sequences that share beginnings: each is a walk through blocks of which there are two at every step.
SEQUENCES = st.builds(
    lambda turns, rest: tuple(turn * 1000 + at for turn in turns for at in range(BLOCK_TOKENS))[: -rest or None],
    st.lists(st.integers(0, 1), min_size=1, max_size=6),
    st.sampled_from([0, 0, 5, 31]),
)
STEPS = st.lists(st.tuples(SEQUENCES, st.booleans(), st.integers(0, 900)), min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, state_tokens=st.sampled_from([0, 0, 1, 70]))
def test_the_tree_keeps_and_finds_what_a_list_of_all_beginnings_does(
    steps: list[tuple[Tokens, bool, int]], state_tokens: int
) -> None:
    prefixes, naive = Prefixes(state_tokens), Naive()
    for tokens, state, room in steps:
        found = prefixes.longest(tokens, names_of(tokens), len(tokens) - 1)
        assert (found.tokens if found else 0) == naive.longest(tokens, len(tokens) - 1, state_tokens > 0)
        prefixes.make_room(room)
        prefixes.keep(1, path_of(tokens), len(tokens), room, state and state_tokens > 0)
        naive.carry_out(prefixes, tokens)
        assert prefixes.tokens == naive.room(state_tokens) <= room
        whole = set(naive.kept)
        assert all(
            len(each) <= BLOCK_TOKENS or each[: (len(each) - 1) // BLOCK_TOKENS * BLOCK_TOKENS] in whole
            for each in whole
        )


def test_what_was_used_longest_ago_goes_first_and_ends_before_beginnings() -> None:
    prefixes = Prefixes()
    one, other = (tuple(range(begin, begin + 512)) for begin in (0, 1000))
    for tokens in (one, other):
        prefixes.keep(1, path_of(tokens), len(tokens), 1024)
    assert prefixes.longest(one, names_of(one), 511) is not None
    prefixes.make_room(900)
    assert prefixes.depth(names_of(one)) == 16, "it was used after the other"
    assert 0 < prefixes.depth(names_of(other)) < 16
    prefixes.make_room(100)
    assert prefixes.depth(names_of(other)) == 0
    assert prefixes.tokens <= 100


def test_what_is_spared_stays_though_there_is_no_room() -> None:
    prefixes = Prefixes()
    tokens = tuple(range(256))
    prefixes.keep(1, path_of(tokens), 256, 256)
    prefixes.make_room(0, set(names_of(tokens)[:2]))
    assert prefixes.depth(names_of(tokens)) == 2


def test_a_name_stands_for_all_tokens_before_it() -> None:
    block = tuple(range(BLOCK_TOKENS))
    assert name_of(name_of(ROOT, (7,) * BLOCK_TOKENS), block) != name_of(name_of(ROOT, (8,) * BLOCK_TOKENS), block)
    assert name_of(ROOT, block) != name_of(ROOT, block[::-1])
