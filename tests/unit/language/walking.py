"""The answers of a model without sense: any token that the grammar allows, by chance, fond of a few endings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from llguidance import LLMatcher

from ringleader.tokenizer import Tokenizer

WALK_MAX = 1500
HURRY = 600  # tokens after which a walk takes an ending wherever it may


def walk(
    tokenizer: Tokenizer,
    grammar: str | None,
    seed: int,
    opening: Sequence[int] = (),
    endings: Sequence[str] = ("</think>",),
) -> list[int]:
    """An answer to its end token. Ends where it may most of the time, and writes one of `endings` now and then."""
    chance = numpy.random.default_rng(seed)
    matcher = LLMatcher(tokenizer.grammar_view, grammar, log_level=0)
    assert matcher.consume_tokens(list(opening))
    favourites = [tokenizer.encode(text) for text in ('"', *endings)]
    answer: list[int] = []
    while len(answer) < WALK_MAX:
        allowed = numpy.flatnonzero(
            numpy.frombuffer(matcher.compute_logit_bias(), dtype=numpy.uint8)[: tokenizer.vocab_size]
        )
        assert allowed.size, matcher.get_error()
        ends = [token for token in tokenizer.eos_ids if token in allowed]
        if ends and (allowed.size == len(ends) or chance.random() < 0.7):
            return [*answer, ends[0]]
        chosen = [int(chance.choice(allowed))]
        if chance.random() < 0.15 + len(answer) / HURRY:
            legal = [ids for ids in favourites if matcher.validate_tokens(ids) == len(ids)]
            chosen = legal[int(chance.integers(len(legal)))] if legal else chosen
        if chosen[0] in tokenizer.eos_ids:
            return [*answer, chosen[0]]
        assert matcher.consume_tokens(chosen), matcher.get_error()
        answer += chosen
    raise AssertionError(f"seed {seed}: no end after {WALK_MAX} tokens: {tokenizer.decode(answer)!r}")
