from __future__ import annotations

from ringleader.language.dialects.muse import muse
from tests.unit.language.builders import NOTE, NOW, Collected
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

SPECIAL = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")
CALL = '<atem:function_calls>\n<atem:invoke name="now">\n</atem:invoke>\n</atem:function_calls>'


def heard(text: str) -> Collected:
    tokenizer = tokenizer_with(SPECIAL, CHATML, ("<|eot|>",))
    return hear(muse(tokenizer), tokenizer, text, (NOW, NOTE))


def test_the_recipient_says_what_a_message_is() -> None:
    more = "<|eom|><|start|>assistant"
    found = heard(f" to=self<|message|>hm{more} to=user<|message|>Wait.{more} to=now<|message|>{CALL}")
    assert (found.reasoning, found.text, found.calls) == ("hm", "Wait.", [["now", "{}"]])


def test_a_message_to_nobody_is_to_the_user() -> None:
    assert heard("<|message|>Hello.").text == "Hello."


def test_a_block_that_is_told_to_the_user_is_text() -> None:
    found = heard(f" to=user<|message|>Write {CALL}")
    assert found.calls == []
    assert CALL in found.text


def test_a_call_is_to_whom_its_header_says() -> None:
    text = CALL.replace('"now"', '"note"')
    assert heard(f" to=now<|message|>{text}").calls == [["now", "{}"]]


def test_a_message_to_a_tool_that_is_no_block_is_no_call() -> None:
    for body in ("please", "<atem:function_calls>\nplease"):
        assert heard(f" to=now<|message|>{body}").ended == []
