from __future__ import annotations

import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.minimax_m2 import minimax_m2
from ringleader.language.prompt import compose, parser, voice
from tests.unit.language.builders import NOTE, NOW, WEATHER, collect, request
from tests.unit.language.dialects.families_minimax import IN_REASONING, TAGS, block
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOOLS = (NOTE, NOW, WEATHER)


@pytest.mark.parametrize("special", [TAGS, ()])
def test_a_string_keeps_every_newline_at_its_edges(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    for text in ("\nx\n", "x\n", "\n", "\n\n"):
        found = hear(minimax_m2(tokenizer), tokenizer, block([("note", {"text": text})]), TOOLS)
        assert found.calls == [["note", '{"text": "' + text.replace("\n", "\\n") + '"}']]


@pytest.mark.parametrize("special", [TAGS, ()])
def test_a_block_without_newlines_is_read_too(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    text = block([("get_weather", {"city": "Oslo", "days": 3}), ("now", {})]).replace("\n", "")
    found = hear(minimax_m2(tokenizer), tokenizer, text, TOOLS)
    assert (found.text, found.calls) == ("", [["get_weather", '{"city": "Oslo", "days": 3}'], ["now", "{}"]])


def test_a_prompt_that_ends_in_reasoning_is_answered_by_reasoning_and_then_calls() -> None:
    tokenizer = tokenizer_with((*TAGS, "<think>", "</think>"), IN_REASONING)
    spoken = voice(tokenizer, 8192)
    wish = request("required", TOOLS)
    prompt = compose(spoken, wish)
    assert (spoken.dialect.name, prompt.thinking_open, prompt.opening) == ("minimax_m2", True, ())
    ids = tokenizer.encode("Hm.\n</think>\n\n" + block([("now", {}), ("note", {"text": "a"})]))
    matcher = LLMatcher(tokenizer.grammar_view, prompt.grammar, log_level=0)
    assert matcher.try_consume_tokens(ids) == len(ids)
    assert matcher.is_accepting()
    reader = parser(spoken, prompt, wish)
    found = collect(reader.feed(ids) + reader.finish("stop"))
    assert (found.reasoning, found.text) == ("Hm.", "")
    assert found.calls == [["now", "{}"], ["note", '{"text": "a"}']]
