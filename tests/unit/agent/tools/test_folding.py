"""Folded text: what reads the same is the same, and every character knows where it came from."""

from __future__ import annotations

import unicodedata

import regex  # type: ignore[import-untyped]  # ships none
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.agent.tools import folding
from ringleader.agent.tools.folding import fold

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("eE\u0301\u0327\u00ad\u200d ﬁßİ\u1112\u1161\u11ab가ﾊﾞ\t\n")))


def whole(text: str) -> str:
    """The same folding, of the whole text at once."""
    seen = regex.sub(f"[{folding._IGNORED}]+", "", text)
    once = unicodedata.normalize("NFKC", seen).casefold()
    return " ".join(unicodedata.normalize("NFKC", once).translate(folding._ALIKE).split())


@settings(deadline=None)
@given(TEXTS)
def test_folding_piece_by_piece_is_folding_the_whole(text: str) -> None:
    assert fold(text).text == whole(text)


@settings(deadline=None)
@given(TEXTS)
def test_offsets_never_run_backwards_and_stay_inside(text: str) -> None:
    folded = fold(text)
    assert len(folded.starts) == len(folded.ends) == len(folded.text)
    previous = 0
    for start, end in zip(folded.starts, folded.ends, strict=True):
        assert previous <= start <= end <= len(text)
        previous = start


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_what_is_found_folds_to_what_was_sought(before: str, wanted: str, after: str) -> None:
    text = f"{before} {wanted} {after}"
    sought = fold(wanted)
    found = fold(text).find(sought)
    if sought.text and not regex.match(r"\p{M}", sought.text) and not regex.match(rf"[{folding.JOINING}]", after):
        assert found is not None
    if found is not None:
        assert sought.text in fold(text[found[0] : found[1]]).text


def test_no_letter_of_unicode_joins_what_is_before_it_unnoticed() -> None:
    joining = regex.compile(f"[{folding.JOINING}]")
    for code in range(0x110000):
        folded = unicodedata.normalize("NFKD", folding._composed(chr(code)) or "x")
        if folding._JOINING_FIRST.match(folded):
            assert joining.match(chr(code)), hex(code)


def test_a_letter_is_not_found_without_its_accent() -> None:
    for evidence in ("cafe\u0301", "café", "x\u0302"):
        assert fold(evidence).find(fold("cafe")) is None
        assert fold(evidence).find(fold("x")) is None
    assert fold("the cafe\u0301 is").find(fold("CAFÉ")) == (4, 9)
    assert fold("각").find(fold("가")) is None


def test_letters_that_stand_for_several_are_found_in_part_and_told_whole() -> None:
    assert fold("the oﬃce").find(fold("OFFICE")) == (4, 8)
    assert fold("the oﬃce").find(fold("of")) == (4, 6)
    assert fold("Straße").find(fold("STRASSE")) == (0, 6)


def test_typography_and_space_do_not_matter() -> None:
    evidence = "He said:\u00a0“It’s\n\t over”—twice"
    found = fold(evidence).find(fold('"it\'s over"-TWICE'))
    assert found is not None and evidence[slice(*found)] == "“It’s\n\t over”—twice"


def test_invisible_characters_do_not_matter() -> None:
    assert fold("in\u00advis\u200bible").find(fold("INVISIBLE")) == (0, 11)
