"""Remainders in tokens: the fewest that the vocabulary has."""

from __future__ import annotations

import json
import re

from ringleader.shard.spelling import GRAMMARS_MAX, Remainder
from ringleader.values import Json
from tests.unit.shard.stubborn import closer, text_of


def spelt(schema: Json) -> list[Remainder]:
    return list(closer().remainders(f"start: %json {json.dumps(schema)}"))


def test_free_places_are_filled_with_the_longest_tokens() -> None:
    longest = max(spelt({"minLength": 33}), key=lambda each: len(text_of(each.tokens)))
    assert len(text_of(longest.tokens)) == 33 and len(longest.tokens) == 3  # " 1234567890" is one of eleven


def test_places_of_a_kind_are_filled_with_their_kind() -> None:
    for each in spelt({"pattern": "^[a-f0-9]{8}-[a-f0-9]{4}$"}):
        assert re.fullmatch("[a-f0-9]{0,8}-?[a-f0-9]{0,4}", text_of(each.tokens))


def test_the_fewest_come_first_and_the_quote_proves_them() -> None:
    found = spelt({"pattern": r"^.*\.pdf$"})
    assert [len(each.tokens) for each in found] == sorted(len(each.tokens) for each in found)
    assert all(text_of(each.proof) == text_of(each.tokens) + '"' for each in found)


def test_what_json_escapes_is_escaped() -> None:
    assert {text_of(each.tokens) for each in spelt({"pattern": '^k*"\\n$'})} == {"\\n", '\\"\\n'}
    assert {text_of(each.tokens) for each in spelt({"pattern": "^k*é$"})} == {"é"}


def test_no_more_grammars_are_remembered_than_there_is_room_for() -> None:
    for n in range(2 * GRAMMARS_MAX):
        assert closer().remainders(f"start: /k*{n}x/")
    assert len(closer()._speller._known) == GRAMMARS_MAX
