from __future__ import annotations

import pytest

from ringleader.language.dialects.apertus import KeyedReader, apertus
from ringleader.language.dialects.dialect import Started, State
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

CLOSE = "<|tools_suffix|>"


def read(text: str) -> tuple[list[str], State]:
    reader = KeyedReader(apertus(tokenizer_with((), CHATML)).close)
    events = [event for char in text for event in reader.push(char)]
    return [event.name for event in events if isinstance(event, Started)], reader.state


def test_free_whitespace_and_escaped_names_are_read() -> None:
    text = ' [ {\n"now" : {} } ,\n{"n\\"\\u006fte": {"text": "]"}}] ' + CLOSE
    assert read(text) == (["now", 'n"ote'], "done")


@pytest.mark.parametrize(
    "text", ["{", "[]", "[[", '[{"now"}', '[{"now": 3', '[{"now": {}} x', '[{"a": {}}{', '[{"\\x"']
)
def test_what_is_no_array_of_calls_is_broken(text: str) -> None:
    assert read(text)[1] == "broken"


def test_an_array_without_its_end_is_not_done() -> None:
    assert read('[{"now": {}}]') == (["now"], "open")


def test_the_closing_token_counts_only_after_the_array() -> None:
    tokenizer = tokenizer_with(("<|tools_prefix|>", CLOSE), CHATML)
    found = hear(apertus(tokenizer), tokenizer, '<|tools_prefix|>[{"now": {}}' + CLOSE, (NOW, NOTE))
    assert found.calls == [["now", "{}"]]
    found = hear(apertus(tokenizer), tokenizer, f'<|tools_prefix|>[{{"now": {CLOSE}', (NOW, NOTE), constrained=False)
    assert found.calls == []
    assert found.text.startswith("<|tools_prefix|>")
