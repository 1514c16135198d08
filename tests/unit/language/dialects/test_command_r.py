from __future__ import annotations

from typing import Any

import pytest

from ringleader.language.dialects.command_r import command_r
from tests.unit.language.builders import NOTE, NOW, Collected
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = (NOTE, NOW)
MARKS = ["THINKING", "ACTION", "RESPONSE", "TEXT"]
SPECIAL = [f"<|{side}_{mark}|>" for mark in MARKS for side in ("START", "END")]
THOUGHT = "<|START_THINKING|>Hm.<|END_THINKING|>"


def heard(answer: str, template: str = "", **more: Any) -> Collected:
    tokenizer = tokenizer_with(SPECIAL, CHATML + f"{{# <|START_THINKING|> {template} #}}")
    return hear(command_r(tokenizer), tokenizer, answer, TOOLS, **more)


@pytest.mark.parametrize(
    "written",
    [
        '<|START_ACTION|>[\n    {"tool_call_id": "7", "tool_name": "now", "parameters": {}}\n]<|END_ACTION|>',
        '<|START_ACTION|>[{"tool_name":"now","parameters":{},"tool_call_id":"0"}]<|END_ACTION|>\n',
        '<|START_ACTION|>\n[ {"tool_name": "now"} ]',
    ],
)
def test_actions_are_read_in_any_spacing_and_order_of_keys(written: str) -> None:
    found = heard(THOUGHT + written, reason="stop")
    assert (found.reasoning, found.text, found.calls, found.ended) == ("Hm.", "", [["now", "{}"]], [0])


@pytest.mark.parametrize(
    "written",
    [
        "<|START_RESPONSE|>Hello\n\nthere.<|END_RESPONSE|>",
        "\n<|START_RESPONSE|>Hello\n\nthere.<|END_RESPONSE|>\n",
        "Hello\n\nthere.",
        "<|START_RESPONSE|>Hello\n\nthere.",
    ],
)
def test_text_is_shown_without_what_stands_around_it_and_also_where_the_model_forgot_that(written: str) -> None:
    assert heard(written).text == "Hello\n\nthere."
    found = heard(THOUGHT + written)
    assert (found.reasoning, found.text) == ("Hm.", "Hello\n\nthere.")


def test_whitespace_inside_of_the_markers_is_the_texts_own() -> None:
    assert heard("<|START_RESPONSE|>  a \n<|END_RESPONSE|>").text == "  a \n"


def test_a_response_ends_reasoning_that_was_not_closed() -> None:
    found = heard("<|START_THINKING|>Hm.\n<|START_RESPONSE|>Yes.<|END_RESPONSE|>")
    assert (found.reasoning, found.text) == ("Hm.", "Yes.")


def test_which_markers_stand_around_text_is_told_by_the_template() -> None:
    assert heard("<|START_TEXT|>Yes.<|END_TEXT|>", "<|START_TEXT|>").text == "Yes."
    assert "START_TEXT" in heard("<|START_TEXT|>Yes.<|END_TEXT|>").text


def test_a_stop_string_is_found_at_the_end_of_a_response() -> None:
    assert heard("<|START_RESPONSE|>Yes. STOP<|END_RESPONSE|>more", stop=("STOP",)).text == "Yes. "
