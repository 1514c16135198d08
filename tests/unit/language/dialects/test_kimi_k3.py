"""What is Kimi K3's own: attributes with entities, an answer that begins in the prompt's channel, and its end."""

from __future__ import annotations

import json

from llguidance import LLMatcher

from ringleader.language.prompt import compose, parser, voice
from ringleader.values import Tool
from tests.unit.language.builders import NOW, Collected, collect, request
from tests.unit.language.dialects.families_kimi_k3 import SILENT, TOKENS, said
from tests.unit.language.vocabulary import tokenizer_with

TOKENIZER = tokenizer_with((*TOKENS, "<|end_of_msg|>"), None, ("<|end_of_msg|>",))
VOICE = voice(TOKENIZER, 8192)
BYE = "<|close|>message<|sep|>"
ODD = Tool("odd", "", {"type": "object", "properties": {'a"&b': {"type": ["string", "integer"]}}})


def heard(text: str, tools: tuple[Tool, ...] = (NOW, ODD)) -> Collected:
    wish = request("auto", tools)
    prompt = compose(VOICE, wish)
    reader = parser(VOICE, prompt, wish)
    ids = TOKENIZER.encode(text)
    if prompt.grammar is not None:
        matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
        assert matcher.try_consume_tokens(ids) == len(ids)
        assert matcher.is_accepting()
    return collect(reader.feed(ids) + reader.finish("stop"))


def test_the_answer_begins_inside_the_reasoning_that_the_prompt_opened() -> None:
    found = heard(f"Hm, <think>?<|close|>think<|sep|>{said('Hello.')}{BYE}")
    assert (found.reasoning, found.text, found.calls) == ("Hm, <think>?", "Hello.", [])


def test_words_and_calls_stand_in_channels_of_their_own() -> None:
    call = '<|open|>call tool="now" index="1"<|sep|><|close|>call<|sep|>'
    found = heard(f"<|close|>think<|sep|>{said('So:')}<|open|>tools<|sep|>{call}<|close|>tools<|sep|>{BYE}")
    assert (found.text, found.calls, found.ended) == ("So:", [["now", "{}"]], [0])


def test_names_are_attributes_and_the_type_that_is_written_decides() -> None:
    for kind, value in (("string", "7"), ("number", 7)):
        argument = f'<|open|>argument key="a&quot;&amp;b" type="{kind}"<|sep|>7<|close|>argument<|sep|>'
        call = f'<|open|>call tool="odd" index="1"<|sep|>{argument}<|close|>call<|sep|>'
        found = heard(f"<|close|>think<|sep|>{SILENT}<|open|>tools<|sep|>{call}<|close|>tools<|sep|>")
        assert [(name, json.loads(text)) for name, text in found.calls] == [("odd", {'a"&b': value})]


def test_calls_are_numbered_from_one() -> None:
    prompt = compose(VOICE, request("required", (NOW,)))
    matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
    wrong = f'<|close|>think<|sep|>{SILENT}<|open|>tools<|sep|><|open|>call tool="now" index="2"'
    ids = TOKENIZER.encode(wrong)
    assert matcher.try_consume_tokens(ids) < len(ids)


def test_an_answer_without_tools_is_read_in_its_channels_too() -> None:
    found = heard(f"Hm.<|close|>think<|sep|>{said('Hi <|open|')}{BYE}", tools=())
    assert (found.reasoning, found.text) == ("Hm.", "Hi <|open|")


def test_a_tag_spelled_in_letters_stays_reasoning() -> None:
    wish = request("auto", ())
    reader = parser(VOICE, compose(VOICE, wish), wish)
    ids = [id_ for char in "a<|close|>think<|sep|>b" for id_ in TOKENIZER.encode(char)]
    found = collect(reader.feed([*ids, *TOKENIZER.encode("<|close|>think<|sep|>" + said("c"))]) + reader.finish("stop"))
    assert (found.reasoning, found.text) == ("a<|close|>think<|sep|>b", "c")
