"""Strings whose form wants something certain at their end are ended in time, from wherever a model has taken them."""

from __future__ import annotations

import json
from functools import cache

import jsonschema
import numpy as np
import pytest
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from ringleader.language.schema import closed
from ringleader.values import Json
from tests.unit.shard.stubborn import a_call, answer, closer, matcher_of, tastes, text_of, vocabulary
from tests.unit.shard.test_closing import fewest_tokens

# What a string must be, and the shortest one that can be thought of.
STRINGS: dict[str, tuple[Json, str]] = {
    "an ending": ({"pattern": r".*\.pdf$"}, ".pdf"),
    "mail by hand": ({"pattern": r"^[^@]+@[^@]+\.[a-z]{2,}$"}, "a@b.in"),
    "a code": ({"pattern": r"^[A-Z]{3}-\d{4}$"}, "AAA-4567"),
    "far from the end": ({"pattern": "^.*a.{20}$"}, "arguments 1234567890A"),
    "a least length": ({"minLength": 33}, " 1234567890 1234567890 1234567890"),
    "letters, a least length": ({"pattern": "^[a-z]+$", "minLength": 24}, "parameterfunctionfunction"),
    "an ending, a most length": ({"pattern": "^.*-end$", "maxLength": 12}, "-end"),
    "email": ({"format": "email"}, "A@A"),
    "email of a length": ({"format": "email", "minLength": 12, "maxLength": 30}, "parameters@A"),
    "uri": ({"format": "uri"}, "A:"),
    "uuid": ({"format": "uuid"}, "45674567-4567-4567-4567-456745674567"),
    "date-time": ({"format": "date-time"}, "4567-12-23T23:23:23Z"),
    "date": ({"format": "date"}, "4567-12-23"),
    "time": ({"format": "time"}, "23:23:23Z"),
    "duration": ({"format": "duration"}, "P1D"),
    "hostname": ({"format": "hostname"}, "A"),
    "ipv4": ({"format": "ipv4"}, "0.0.0.0"),
    "ipv6": ({"format": "ipv6"}, "::"),
    "a colour": ({"pattern": "^#[0-9a-fA-F]{6}$"}, "#4567de"),
    "a version": ({"pattern": r"^\d+\.\d+\.\d+(-[a-z]+)?$"}, "1.1.1"),
    "a path": ({"pattern": r"^(/[a-z0-9_]+)+\.py$"}, "/a.py"),
    "an address": ({"pattern": r"^https?://[^\s/]+\.(com|org)/.*\?q=.+$"}, "http://a.org/?q=1"),
    "one of two forms": ({"pattern": "^(?:left: .*;|right: .*!)$"}, "left: ;"),
    "a telephone": ({"pattern": r"^\+[1-9]\d{6,14}$"}, "+4567456"),
    "a word anywhere": ({"pattern": "needle"}, "needle"),
    "another script": ({"pattern": "^[а-я]{3,}й$"}, "ааай"),
    "quotes": ({"pattern": '^".*"$'}, '""'),
    "base64": ({"pattern": "^[A-Za-z0-9+/]{8,}==$"}, "function=="),
    "digits apart": ({"pattern": r"^\D+\d\D+\d$"}, "a1a1"),
    "two patterns": ({"allOf": [{"pattern": "^.*x.{3}$"}, {"pattern": "^[a-z ]+$"}]}, "xame"),
    "lines": ({"pattern": "^(.+\n){3}end$"}, "t\nt\nt\nend"),
    "any case": ({"pattern": "(?i)^key:.*stop$"}, "KEY:stOP"),
}
WALKS, PLACES = 2, 24  # of a model without sense, into each string
CHECKER = jsonschema.FormatChecker(["date", "email", "ipv4", "ipv6", "uuid"])


def schema_of(name: str) -> Json:
    value = {"type": "string", **STRINGS[name][0]}
    return {"type": "object", "properties": {"s": value, "n": {"type": "integer"}}, "required": ["s", "n"]}


def grammar_of(name: str) -> str:
    return a_call(closed(schema_of(name)))


@cache
def fewest(name: str) -> int:
    """Tokens of the shortest call that can be thought of, in the best of all ways to cut it."""
    arguments = json.dumps({"s": STRINGS[name][1], "n": 1}, ensure_ascii=False)
    return fewest_tokens(grammar_of(name), f'<tool_call>\n{{"name": "w", "arguments": {arguments}}}\n</tool_call>')


@pytest.mark.parametrize("name", STRINGS)
def test_a_call_is_complete_and_valid_in_as_few_tokens_as_the_shortest_that_can_be_thought_of(name: str) -> None:
    for n, budget in enumerate([fewest(name), fewest(name) + 1, fewest(name) + 9, fewest(name) + 30]):
        taste = sorted(tastes())[(n + len(name)) % len(tastes())]
        tokens, finish = answer(grammar_of(name), budget, tastes()[taste])
        assert finish == "stop", (taste, budget, text_of(tokens))
        arguments = text_of(tokens).split('"arguments": ')[1].removesuffix("}\n</tool_call>")
        jsonschema.validate(json.loads(arguments), schema_of(name), format_checker=CHECKER)


@pytest.mark.parametrize("name", STRINGS)
def test_an_ending_is_found_from_wherever_a_model_has_come_to(name: str) -> None:
    grammar = grammar_of(name)
    remainders = closer().remainders(grammar)
    mask = allocate_token_bitmask(1, vocabulary().vocab_size)
    for seed in range(WALKS):
        chance = np.random.default_rng(seed)
        matcher = matcher_of(grammar)
        matcher.consume_tokens(matcher.compute_ff_tokens())
        for _ in range(PLACES):
            if matcher.is_accepting():
                break
            ending = closer().ending(matcher, 200, remainders=remainders)
            assert ending is not None
            copy = matcher.deep_copy()
            assert copy.consume_tokens(list(ending)) and copy.is_accepting()
            fill_next_token_bitmask(matcher, mask, 0)
            legal = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            assert matcher.consume_token(int(chance.choice(legal)))


def test_an_array_is_left_as_soon_as_it_has_enough_items() -> None:
    items = {"type": "array", "minItems": 2, "items": {"type": "string", "format": "email"}}
    schema = {"type": "object", "properties": {"l": items, "s": {"type": "string"}}, "required": ["l", "s"]}
    grammar = a_call(closed(schema))
    ending = closer().ending(matcher_of(grammar), 500, remainders=closer().remainders(grammar), steps=60)
    assert ending is not None and text_of(ending).count("@") == 2


def test_a_loop_of_marked_items_is_left() -> None:
    grammar = 'start: "<l>" ("<item>" /[a-z]/ "</item>")+ "</l>"'
    ending = closer().ending(matcher_of(grammar), 400, steps=100)
    assert ending is not None and text_of(ending).endswith("</l>")


def test_a_raw_string_is_ended_too() -> None:
    grammar = 'start: "<p>" body "x"\nbody[lazy]: /(.*\\.pdf)<\\/p>/ & ~/(?s:.*)<\\/p>(?s:.+)/'
    matcher = matcher_of(grammar)
    assert matcher.consume_tokens(vocabulary().encode("<p>name.p"))
    ending = closer().ending(matcher, 20, remainders=closer().remainders(grammar))
    assert ending is not None and text_of(ending) in ("df</p>x", ".pdf</p>x")


def test_an_ending_that_has_been_begun_in_other_tokens_goes_on_where_the_text_does() -> None:
    known = closer().tokens("Paris, London")
    letters = tuple(token for char in "Par" for token in closer().tokens(char))
    rest = closer().rest_of(known, letters)
    assert rest is not None and text_of(rest) == "is, London"
    assert closer().rest_of(known, known[:1]) == known[1:]
    assert closer().rest_of(known, closer().tokens("Pat")) is None
    assert closer().rest_of(known, known) == ()
