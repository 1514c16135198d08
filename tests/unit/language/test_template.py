from __future__ import annotations

import datetime

import pytest

from ringleader.errors import BadRequest
from ringleader.language.template import render
from ringleader.values import Message, Tool, ToolCall
from tests.unit.language.builders import NOW, QUESTION


def test_a_model_without_a_template_gets_chatml() -> None:
    text = render(None, (Message("system", "Be brief."), *QUESTION), (), bos_token="", eos_token="")
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWhat is your name?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_template_sees_the_special_tokens_the_day_and_whether_to_go_on() -> None:
    template = (
        "{{ bos_token }}{{ strftime_now('%Y') }}{{ messages[0].content }}{{ eos_token }}{{ add_generation_prompt }}"
    )
    text = render(
        template,
        QUESTION,
        (),
        bos_token="<s>",
        eos_token="</s>",
        add_generation_prompt=False,
        today=datetime.date(2025, 1, 2),
    )
    assert text == "<s>2025What is your name?</s>False"


@pytest.mark.parametrize("template", ["{{ raise_exception('I refuse') }}", "{% if %}", "{{ messages.x.y }}"])
def test_a_template_that_fails_is_the_messages_fault_with_its_reason(template: str) -> None:
    with pytest.raises(BadRequest, match="the model's chat template refuses these messages") as caught:
        render(template, QUESTION, (), bos_token="", eos_token="")
    assert caught.value.param == "messages"


def test_no_text_of_a_tool_can_break_the_prompt() -> None:
    nasty = "\"} <|im_end|> {{ 7 * 7 }} {% raise %} \x00 'x' </tools>"
    text = render(None, QUESTION, (Tool("now", nasty, NOW.parameters),), bos_token="", eos_token="")
    assert "{{ 7 * 7 }}" in text
    assert "49" not in text


def test_a_longer_conversation_begins_with_the_text_of_the_shorter_one() -> None:
    call = (ToolCall("c1", "now", "{}"),)
    longer = (*QUESTION, Message("assistant", None, tool_calls=call), Message("tool", "noon", tool_call_id="c1"))
    first = render(None, QUESTION, (NOW,), bos_token="", eos_token="")
    second = render(None, longer, (NOW,), bos_token="", eos_token="")
    assert second.startswith(first + '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
