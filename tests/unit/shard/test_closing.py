"""Endings: legal, short, and found for every kind of schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from tests.unit.shard.stubborn import SHORTEST, a_call, closer, json_rule, marker, matcher_of, text_of, vocabulary

LIMIT = 300


def fewest_tokens(grammar: str, text: str) -> int:
    """The fewest tokens in which `text` can be written under `grammar`: every legal way to cut it is followed."""
    goal = text.encode()
    pieces = [vocabulary().token_bytes(token) for token in range(vocabulary().vocab_size)]
    reached: dict[int, tuple[int, Any]] = {0: (0, matcher_of(grammar))}
    for at in range(len(goal)):
        if at in reached:
            count, matcher = reached[at]
            for token in _legal(matcher):
                stop = at + len(pieces[token])
                if pieces[token] and goal.startswith(pieces[token], at) and reached.get(stop, (LIMIT,))[0] > count + 1:
                    after = matcher.deep_copy()
                    assert after.consume_token(token)
                    reached[stop] = (count + 1, after)
    count, matcher = reached[len(goal)]
    assert matcher.is_accepting()
    return count


def _legal(matcher: Any) -> list[int]:
    mask = allocate_token_bitmask(1, vocabulary().vocab_size)
    fill_next_token_bitmask(matcher, mask, 0)
    return [int(token) for token in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


def accepts(grammar: str, ending: tuple[int, ...]) -> bool:
    matcher = matcher_of(grammar)
    return bool(matcher.consume_tokens(list(ending)) and matcher.is_accepting())


@pytest.mark.parametrize("name", SHORTEST)
def test_the_shortest_ending_that_can_be_thought_of_is_found(name: str) -> None:
    schema, arguments = SHORTEST[name]
    grammar = a_call(schema)
    text = f'<tool_call>\n{{"name": "w", "arguments": {arguments}}}\n</tool_call>'
    fewest = fewest_tokens(grammar, text)
    ending = closer().ending(matcher_of(grammar), fewest, steps=1000)
    assert ending is not None and len(ending) <= fewest
    assert accepts(grammar, ending)


@pytest.mark.parametrize("name", SHORTEST)
def test_an_ending_is_legal_and_never_longer_than_the_limit(name: str) -> None:
    grammar = a_call(SHORTEST[name][0])
    lengths = set()
    for limit in range(10, 90, 4):
        ending = closer().ending(matcher_of(grammar), limit)
        if ending is not None:
            assert len(ending) <= limit and accepts(grammar, ending), text_of(ending)
            lengths.add(len(ending))
    assert lengths


def test_a_matcher_is_left_as_it_was() -> None:
    matcher = matcher_of(a_call({"type": "object"}))
    before = matcher.compute_bitmask()
    assert closer().ending(matcher, LIMIT) is not None
    assert matcher.compute_bitmask() == before


def test_where_the_answer_may_end_the_ending_is_empty() -> None:
    assert closer().ending(matcher_of("start: /(?s:.*)/"), LIMIT) == ()


@pytest.mark.parametrize(
    ("rule", "terminator"),
    [
        ('start: body "</end>"\nbody[lazy]: /(?s:.*)\\n<\\/p>\\n/', "\n</p>\n"),
        ('start: body ("x" | "yy") \nbody[lazy]: /(?s:.*)\\[\\/T\\]/', "[/T]"),
        (f'start: /(?s:.*)<p:/ {marker("</think>")} "x"', "<p:"),
    ],
)
def test_raw_text_is_ended_by_its_terminator(rule: str, terminator: str) -> None:
    tokens = closer().tokens(terminator)
    assert closer().ending(matcher_of(rule), 20) is None  # no mask shows the way
    ending = closer().ending(matcher_of(rule), 20, [tokens])
    assert ending is not None and ending[: len(tokens)] == tokens


def test_a_terminator_is_only_text_inside_a_json_string() -> None:
    grammar = f"start: {json_rule({'type': 'array', 'items': {'type': 'string'}})}"
    matcher = matcher_of(grammar)
    assert matcher.consume_tokens(vocabulary().encode('["a'))
    ending = closer().ending(matcher, LIMIT, [closer().tokens("</p>")])
    assert ending is not None and text_of(ending) == '"]'


def test_a_python_string_is_closed_by_its_own_quote() -> None:
    matcher = matcher_of('start: "f(a=" S ")"\nS: /\'([^\'\\\\\\n]|\\\\.)*\'/ | /"([^"\\\\\\n]|\\\\.)*"/')
    assert matcher.consume_tokens(vocabulary().encode("f(a='note"))
    ending = closer().ending(matcher, LIMIT)
    assert ending is not None and text_of(ending) == "')"


def test_a_number_is_not_lengthened_for_ever() -> None:
    matcher = matcher_of(f'start: {json_rule({"type": "number"})} "\\nend"')
    ending = closer().ending(matcher, 6)
    assert ending is not None and text_of(ending).endswith("\nend")


def test_an_ending_that_the_grammar_cannot_have_is_not_found() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 40}
    matcher = matcher_of(f"start: {json_rule(schema)}")
    assert closer().ending(matcher, 60) is None
    assert closer().ending(matcher, LIMIT) is not None


def test_a_known_ending_is_known_to_fit_or_not() -> None:
    matcher = matcher_of(f"start: {json_rule({'type': 'array', 'items': {'type': 'string'}})}")
    assert matcher.consume_tokens(vocabulary().encode('["a'))
    closing = closer().tokens('"]')
    assert closer().closes(matcher, closing)
    assert not closer().closes(matcher, closer().tokens('"'))
    assert matcher.consume_tokens(vocabulary().encode('",'))
    assert not closer().closes(matcher, closing)


def test_the_end_token_is_given_only_where_it_is_legal() -> None:
    matcher = matcher_of(f'start: "a" {json_rule({"type": "string"})}?')
    assert closer().end_token(matcher) is None
    assert matcher.consume_tokens(vocabulary().encode("a"))
    assert closer().end_token(matcher) == vocabulary().eos_ids[0]
