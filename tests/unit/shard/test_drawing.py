"""What several grammars allow in one pass."""

from __future__ import annotations

import pytest
from llguidance import LLMatcher

from ringleader.shard.drawing import legal_tokens
from ringleader.tokenizer import Tokenizer


@pytest.mark.parametrize("drafted", [(), (0,), (1,), (0, 1), (0, 1, 2)])
def test_rows_with_drafts_and_rows_without_may_share_a_pass(tokenizer: Tokenizer, drafted: tuple[int, ...]) -> None:
    texts = ["abc", "xyz", "hello"]

    def matcher(text: str) -> LLMatcher:
        return LLMatcher(tokenizer.grammar_view, f'start: "{text}"')

    ids = [tokenizer.encode(text) for text in texts]
    drafts = [(each[0],) if number in drafted else () for number, each in enumerate(ids)]
    legal = legal_tokens([matcher(text) for text in texts], tokenizer.vocab_size, drafts)
    alone = [legal_tokens([matcher(text)], tokenizer.vocab_size)[0] for text in texts]
    rows = iter(legal)
    for number in range(3):
        assert (next(rows) == alone[number]).all()
        if number in drafted:
            after = matcher(texts[number])
            assert after.consume_token(ids[number][0])
            assert (next(rows) == legal_tokens([after], tokenizer.vocab_size)[0]).all()
    assert next(rows, None) is None
