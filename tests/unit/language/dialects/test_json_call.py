from __future__ import annotations

import pytest

from ringleader.language.dialects.json_call import JsonCallReader


def pushed(text: str) -> tuple[JsonCallReader, list[str]]:
    reader = JsonCallReader()
    return reader, [reader.push(char) for char in text]


def test_each_character_of_the_arguments_is_given_as_soon_as_it_is_read() -> None:
    text = '{"name": "f", "arguments": {"a": "}"}}'
    reader, pieces = pushed(text)
    start = text.index('{"a"')
    assert pieces == [*[""] * start, *'{"a": "}"}', ""]
    assert (reader.name, reader.done) == ("f", True)


def test_arguments_that_come_before_the_name_wait_for_it() -> None:
    reader, pieces = pushed('{"arguments": {"a": 1}, "name": "f"}')
    assert [piece for piece in pieces if piece] == ['{"a": 1}']
    assert reader.done


def test_the_name_is_known_only_when_it_is_whole() -> None:
    reader, _ = pushed('{"name": "get')
    assert reader.name is None
    for char in '_all\\u0041"':
        reader.push(char)
    assert reader.name == "get_allA"


@pytest.mark.parametrize(
    "text", ["[", "x", "{x", '{"a" 1', '{"a": 1 2', '{"a": ,', '{"name": 1', '{"arguments": [', "{}"]
)
def test_what_cannot_become_a_call_is_broken(text: str) -> None:
    assert pushed(text)[0].broken


@pytest.mark.parametrize("arguments", ['{"a": }', "{a: 1}", "{'a': 1}", '{"a": NaN}', '{"a": 1,}', '{"a": "\n"}'])
def test_arguments_that_are_no_json_break_the_call(arguments: str) -> None:
    assert pushed(f'{{"name": "f", "arguments": {arguments}}}')[0].broken


def test_depth_without_bound_breaks_the_call_and_nothing_else() -> None:
    reader, _ = pushed('{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}")
    assert reader.broken
