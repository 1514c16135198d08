"""The opening: the tokens that a forced call begins with in any case, appended to the prompt before it is prefilled."""

from __future__ import annotations

from llguidance import LLMatcher

from ringleader.language.grammar import Grammar
from ringleader.tokenizer import Tokenizer

# Long tool names with a long const argument fit; an opening is also bounded by what the grammar forces.
OPENING_MAX = 1024


def forced_opening(grammar: Grammar | None, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids that the grammar forces from its start; () where it leaves a choice at once. Never an end token.

    Ends where the next id could be a longer token that reaches over the end of what is forced: the engine
    gives only ids that any continuation keeps.
    """
    if grammar is None:
        return ()
    matcher = LLMatcher(tokenizer.grammar_view, grammar.text, log_level=0)
    opening: list[int] = []
    while len(opening) < OPENING_MAX and not matcher.is_stopped():
        forced = [token for token in matcher.compute_ff_tokens() if token not in tokenizer.eos_ids]
        forced = forced[: OPENING_MAX - len(opening)]
        if not forced or not matcher.consume_tokens(forced):
            break
        opening += forced
    return tuple(opening)
