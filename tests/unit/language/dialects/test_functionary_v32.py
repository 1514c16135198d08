"""What is Functionary 3.2's own: the first recipient is a header, later ones begin with a sign in plain text."""

from __future__ import annotations

from llguidance import LLMatcher

from ringleader.language.prompt import compose, parser, voice
from ringleader.values import Tool
from tests.unit.language.builders import NOTE, NOW, Collected, collect, request
from tests.unit.language.dialects.families_functionary_v32 import SHOWN
from tests.unit.language.vocabulary import tokenizer_with

TOKENIZER = tokenizer_with((), SHOWN)
VOICE = voice(TOKENIZER, 8192)


def heard(text: str, tools: tuple[Tool, ...] = (NOW, NOTE), size: int = 1) -> Collected:
    wish = request("auto", tools)
    reader = parser(VOICE, compose(VOICE, wish), wish)
    ids = TOKENIZER.encode(text)
    deltas = [delta for at in range(0, len(ids), size) for delta in reader.feed(ids[at : at + size])]
    return collect(deltas + reader.finish("stop"))


def test_words_then_calls_then_calls() -> None:
    for size in (1, 3, 100):
        found = heard('all\nSo:>>>now\n{}>>>note\n{"text": ">>>all\\n"}', size=size)
        assert (found.text, found.calls, found.ended) == (
            "So:",
            [["now", "{}"], ["note", '{"text": ">>>all\\n"}']],
            [0, 1],
        )


def test_an_answer_without_a_recipient_is_text() -> None:
    assert heard("Hello there.").text == "Hello there."
    assert heard("nowhere\n", tools=()).text == "nowhere\n"


def test_a_sign_that_begins_no_call_is_text_where_nothing_is_enforced() -> None:
    assert heard("all\n>>> print(1)\n1", tools=()).text == ">>> print(1)\n1"


def test_text_cannot_hold_the_sign_where_there_are_tools() -> None:
    prompt = compose(VOICE, request("auto", (NOW,)))
    for text, legal in [("all\na >> b", True), ("all\n>>> b", False), ("all\n>>>now\n{}", True), ("b\n", False)]:
        ids = TOKENIZER.encode(text)
        matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
        assert (matcher.try_consume_tokens(ids) == len(ids)) == legal, text


def test_the_opening_is_the_name_that_is_forced() -> None:
    prompt = compose(VOICE, request("now", (NOW, NOTE)))
    assert TOKENIZER.decode(prompt.opening) == "now\n{}"
