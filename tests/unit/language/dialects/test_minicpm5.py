from __future__ import annotations

import json

from ringleader.language.dialects.minicpm5 import minicpm5
from ringleader.language.template import render
from ringleader.values import Message, ToolCall
from tests.unit.language.builders import NOTE, NOW, WEATHER, Collected
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with


def heard(text: str, special: tuple[str, ...] = ()) -> Collected:
    tokenizer = tokenizer_with(special, CHATML)
    return hear(minicpm5(tokenizer), tokenizer, text, (NOTE, NOW, WEATHER))


def note(value: str) -> str:
    return f'<function name="note"><param name="text">{value}</param></function>'


def test_a_quoted_string_is_what_stands_between_the_quotes() -> None:
    for value in ["a <b> & c", "</param>", "two\nlines", "", "]]>", "<![CDATA["]:
        assert heard(note(f"<![CDATA[{value}]]>")).calls == [["note", json.dumps({"text": value})]]


def test_what_only_looks_like_a_quote_is_the_string_itself() -> None:
    for value in ["<", "<![CDATA", "<![CDATa[x]]>", "x<![CDATA[y]]>"]:
        assert heard(note(value)).calls == [["note", json.dumps({"text": value})]]


def test_numbers_and_calls_on_lines_of_their_own_are_read() -> None:
    text = (
        '<function name="get_weather">\n  <param name="city">Oslo</param>\n  <param name="days">3</param>\n</function>'
    )
    found = heard(f"{text}\n{note('x')}")
    assert found.calls == [["get_weather", '{"city": "Oslo", "days": 3}'], ["note", '{"text": "x"}']]


def test_a_history_that_the_template_would_write_twice_is_written_once() -> None:
    block = (
        '{% for call in m.tool_calls or [] %}<function name="{{ call.function.name }}">'
        '{% for k, v in call.function.arguments.items() %}<param name="{{ k }}">{{ v }}</param>{% endfor %}</function>'
        "{% endfor %}"
    )
    twice = CHATML.replace(
        "{% for message in messages %}", "{% for message in messages %}{% set m = message %}"
    ).replace("+ '<|im_end|>", "}}" + block * 2 + "{{ '<|im_end|>")
    call = ToolCall("c1", "note", '{"text": "a\\nb"}')
    turns = (
        Message("user", "Go."),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "ok", tool_call_id="c1"),
    )
    dialect = minicpm5(tokenizer_with((), twice))
    text = render(twice, turns, (NOTE,), bos_token="", eos_token="", history=dialect.history)
    assert text.count('<function name="note">') == 1
    assert "<![CDATA[a\nb]]>" in text
    assert "<tool_response>\nok\n</tool_response>" in text
