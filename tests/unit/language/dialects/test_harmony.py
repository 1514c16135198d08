from __future__ import annotations

import pytest

from ringleader.language.dialects.harmony import harmony
from ringleader.language.stream import StreamParser
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from tests.unit.language.builders import NOTE, NOW, WEATHER, Collected
from tests.unit.language.dialects.families_first import HARMONY
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOOLS = (NOTE, NOW, WEATHER)
ANALYSIS = "<|channel|>analysis<|message|>Hm.\nYes.<|end|><|start|>assistant"


@pytest.fixture
def gpt() -> Tokenizer:
    return tokenizer_with(HARMONY, None, ("<|return|>", "<|call|>"))


def heard(gpt: Tokenizer, answer: str, **more: object) -> Collected:
    return hear(harmony(gpt), gpt, answer, TOOLS, **more)  # type: ignore[arg-type]  # passes them on


def test_reasoning_then_an_answer(gpt: Tokenizer) -> None:
    found = heard(gpt, ANALYSIS + "<|channel|>final<|message|>Hello.\n<|return|>")
    assert (found.reasoning, found.text) == ("Hm.\nYes.", "Hello.\n")
    assert found.order == ["ReasoningDelta", "TextDelta"]


@pytest.mark.parametrize(
    "written",
    [
        '<|channel|>commentary to=functions.note <|constrain|>json<|message|>{"text": "a"}<|call|>',
        '<|channel|>commentary to=functions.note<|message|>{"text": "a"}<|call|>',
        '<|channel|>commentary  to=functions.note json<|message|>{"text": "a"}',
        '<|channel|>analysis to=functions.note <|constrain|>json<|message|>{"text": "a"}<|call|>',
        ' to=functions.note<|channel|>commentary json<|message|>{"text": "a"}<|call|>',
        ' to=functions.note<|channel|>commentary <|constrain|>json<|message|> {"text": "a"} <|end|>',
        ' to=note<|channel|>commentary<|message|>{"text": "a"}<|call|>',
    ],
)
def test_a_call_is_read_however_its_header_is_written(gpt: Tokenizer, written: str) -> None:
    for before in ("", ANALYSIS):
        found = heard(gpt, before + written)
        assert (found.calls, found.ended, found.text) == ([["note", '{"text": "a"}']], [0], "")


def test_a_call_without_a_body_has_no_arguments(gpt: Tokenizer) -> None:
    assert heard(gpt, " to=functions.now<|channel|>commentary<|message|><|call|>").calls == [["now", "{}"]]


def test_words_before_a_call_are_text_and_stand_apart_from_others(gpt: Tokenizer) -> None:
    words = "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant"
    found = heard(gpt, words + " to=functions.now<|channel|>commentary json<|message|>{}<|call|>")
    assert (found.text, found.calls) == ("I will look.", [["now", "{}"]])
    assert heard(gpt, words + "<|channel|>final<|message|>Done.").text == "I will look.\n\nDone."


def test_a_model_that_writes_no_frames_writes_text(gpt: Tokenizer) -> None:
    assert heard(gpt, "Hello there.", constrained=False).text == "Hello there."


def test_a_header_that_is_cut_is_not_text(gpt: Tokenizer) -> None:
    assert heard(gpt, " to=fu", reason="length") == Collected()


def test_a_header_that_is_cut_off_shows_nothing(gpt: Tokenizer) -> None:
    assert heard(gpt, ANALYSIS + "<|channel|>comm").text == ""


def test_a_call_ends_the_turn_as_a_call(gpt: Tokenizer) -> None:
    parser = StreamParser(harmony(gpt), gpt, normalise("auto", TOOLS, True))
    parser.feed(gpt.encode(" to=functions.now<|channel|>commentary json<|message|>{}<|call|>"))
    assert parser.finish_reason("stop") == "tool_calls"


def test_an_unknown_recipient_is_no_call(gpt: Tokenizer) -> None:
    found = heard(gpt, " to=functions.evil<|channel|>commentary json<|message|>{}<|call|>", constrained=False)
    assert (found.calls, found.text) == ([], "{}")


def test_stop_strings_end_the_answer_and_nothing_else(gpt: Tokenizer) -> None:
    answer = ANALYSIS + "<|channel|>final<|message|>Yes. No. Yes."
    assert heard(gpt, answer, stop=("No",)).text == "Yes. "
    assert heard(gpt, answer, stop=("Hm",)).reasoning == "Hm.\nYes."
