from __future__ import annotations

import pytest

from ringleader.language.dialects.json_tags import json_tags
from ringleader.language.grammar import build
from ringleader.language.opening import forced_opening
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOW, WEATHER


def opening(tokenizer: Tokenizer, choice: Json, tools: tuple[Tool, ...]) -> tuple[int, ...]:
    made = build(json_tags(tokenizer), tools, normalise(choice, tools, True), tokenizer)
    return forced_opening(made, tokenizer)


def test_a_named_tool_opens_into_its_arguments(opener: Tokenizer) -> None:
    text = opener.decode(opening(opener, "get_weather", (WEATHER, NOW)))
    assert text.startswith('<tool_call>\n{"name": "get_weather", "arguments":')
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "'.startswith(text)


def test_several_tools_open_with_what_they_share(opener: Tokenizer) -> None:
    tools = (Tool("get_weather"), Tool("get_time"))
    text = opener.decode(opening(opener, "required", tools))
    assert text.startswith('<tool_call>\n{"name":')
    assert '<tool_call>\n{"name": "get_'.startswith(text)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_nothing_is_opened_where_nothing_is_forced(opener: Tokenizer, choice: str) -> None:
    assert opening(opener, choice, (WEATHER, NOW)) == ()
    assert forced_opening(None, opener) == ()


def test_an_opening_never_ends_the_answer(opener: Tokenizer) -> None:
    ids = opening(opener, "now", (NOW,))
    assert opener.decode(ids) == '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert not set(ids) & set(opener.eos_ids)


@pytest.mark.parametrize("city", ["New York", "Oslo", "", "Ä", '\\"', " x"])
def test_the_opening_ends_before_a_token_that_what_follows_could_change(opener: Tokenizer, city: str) -> None:
    assert opener.token_id("ĠNew") is not None or opener.token_id("New") is not None
    ids = opening(opener, "get_weather", (WEATHER,))
    prompt = opener.encode("<|im_start|>assistant\n")
    call = f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{city}", "days": 3}}}}\n</tool_call>'
    whole = opener.encode("<|im_start|>assistant\n" + call)
    assert whole[: len(prompt) + len(ids)] == [*prompt, *ids]


def test_a_long_forced_text_is_bounded(opener: Tokenizer) -> None:
    tool = Tool("now", "", {"type": "object", "properties": {"x": {"const": "ab " * 4000}}, "required": ["x"]})
    assert 0 < len(opening(opener, "now", (tool,))) <= 1024


def test_a_model_that_may_reason_first_is_not_opened_for(marked: Tokenizer) -> None:
    assert opening(marked, "get_weather", (WEATHER, NOW)) == ()
