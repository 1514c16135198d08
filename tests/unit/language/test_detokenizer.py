from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.language.detokenizer import Detokenizer
from ringleader.tokenizer import Tokenizer


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.feed(token) for token in ids), detokenizer.flush()]


def test_no_piece_shows_half_a_character(plain: Tokenizer) -> None:
    text = "ÄÖÜ 🐢 日本 e\u0301"
    ids = plain.encode(text)
    assert len(ids) > len(text)  # characters are split over tokens here
    found = pieces(plain, ids)
    assert "".join(found) == text
    assert not any("\ufffd" in piece for piece in found)


def test_an_incomplete_character_at_the_end_is_dropped(plain: Tokenizer) -> None:
    ids = plain.encode("a🐢")
    assert "".join(pieces(plain, ids[:-1])) == "a"


def test_broken_bytes_do_not_hold_back_what_follows(plain: Tokenizer) -> None:
    half = plain.encode("🐢")[0]
    found = "".join(pieces(plain, [half] * 20 + plain.encode("after")))
    assert found.endswith("after")


def test_special_tokens_are_text(marked: Tokenizer) -> None:
    assert "".join(pieces(marked, marked.encode("a<tool_call>b<|im_end|>"))) == "a<tool_call>b<|im_end|>"


def test_a_replacement_character_that_was_written_is_kept(plain: Tokenizer) -> None:
    assert "".join(pieces(plain, plain.encode("a\ufffdb"))) == "a\ufffdb"


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_comes_back(plain: Tokenizer, text: str) -> None:
    assert "".join(pieces(plain, plain.encode(text))) == text.rstrip("\ufffd")
