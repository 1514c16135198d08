"""What is tried first: ends before closers, closers before words, openers last."""

from __future__ import annotations

from ringleader.shard.ranking import Order, rank_tokens
from tests.unit.shard.stubborn import vocabulary

RANKING = rank_tokens(vocabulary().grammar_view, frozenset(vocabulary().eos_ids))


def place(order: Order, text: str) -> int:
    (token,) = vocabulary().encode(text)
    return int(next(at for at, each in enumerate(order) if each == token))


def test_every_token_has_its_place_in_every_way() -> None:
    for way in RANKING.ways:
        assert sorted(way.narrow) == list(range(vocabulary().vocab_size))


def test_ends_come_first_then_what_closes_more_then_words_then_openers() -> None:
    order = RANKING.ways[0].narrow
    tried = ["<|im_end|>", "</tool_call>", '"}}', "}}", ",", "7", "a", "["]
    assert sorted(tried, key=lambda text: place(order, text)) == tried


def test_the_third_way_prefers_long_words_to_short_ones() -> None:
    order = RANKING.ways[2].narrow
    assert place(order, "parameter") < place(order, "a")


def test_inside_text_only_markers_and_quotes_may_end_it() -> None:
    markers, *quotes = RANKING.ways[0].wide
    assert vocabulary().token_id("</think>") in markers
    for order, quote in zip(quotes, (b'"', b"'", b"`"), strict=True):
        assert len(order) and all(vocabulary().token_bytes(int(token)).startswith(quote) for token in order)
