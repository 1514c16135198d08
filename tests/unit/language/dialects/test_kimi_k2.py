from __future__ import annotations

import pytest

from ringleader.language.dialects.kimi_k2 import kimi_k2, tool_of
from ringleader.language.prompt import compose, voice
from ringleader.values import Message, ToolCall
from tests.unit.language.builders import NOTE, NOW, WEATHER, request
from tests.unit.language.dialects.families_kimi import K2
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOOLS = (NOTE, NOW, WEATHER)
TEMPLATE = (
    "{{ tools }}{% for m in messages %}{{ m.role }}: "
    "{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }} {% endif %}{{ m.content }}"
    "{% for t in m.tool_calls or [] %}<|tool_calls_section_begin|><|tool_call_begin|>{{ ID }}"
    "<|tool_call_argument_begin|>{{ t.function.arguments | tojson }}<|tool_call_end|>{% endfor %}{% endfor %}"
)
AS_GIVEN = TEMPLATE.replace("ID", "t.id")
BY_TURN = TEMPLATE.replace("ID", "'functions.' + t.function.name + ':' + loop.index0 | string")


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("functions.now:0", "now"),
        (" functions.now:12\n", "now"),
        ("functions_now_1", "now"),
        ("functions.now", "now"),
        ("now:3", "now"),
        ("now", "now"),
        ("functions.step_2", "step_2"),
        ("functions.step_2:7", "step_2"),
        ("functions_all:0", "functions_all"),
        ("functions.evil:0", "evil"),
    ],
)
def test_a_name_is_found_in_any_id(id_: str, name: str) -> None:
    assert tool_of({"now", "step_2", "functions_all"}, id_) == name


@pytest.mark.parametrize("special", [K2, ()])
def test_an_id_of_another_shape_is_still_a_call(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    text = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions_now_1<|tool_call_argument_begin|>{}<|tool_call_end|>"
    )
    for end in ("<|tool_calls_section_end|>", ""):
        found = hear(kimi_k2(tokenizer), tokenizer, text + end, TOOLS)
        assert (found.text, found.calls, found.ended) == ("", [["now", "{}"]], [0])


@pytest.mark.parametrize(("template", "ids"), [(AS_GIVEN, ("0", "1", "2")), (BY_TURN, ("0", "1", "0"))])
def test_calls_and_results_of_the_history_have_the_same_ids(template: str, ids: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(K2, template)
    messages = (
        Message("user", "Hi"),
        Message("assistant", "", tool_calls=(ToolCall("x", "now", "{}"), ToolCall("y", "note", '{"text": "a"}'))),
        Message("tool", "second", tool_call_id="y"),
        Message("tool", "first", tool_call_id="x"),
        Message("assistant", "", tool_calls=(ToolCall("z", "now", "{}"),)),
        Message("tool", "third", tool_call_id="z"),
    )
    text = tokenizer.decode(compose(voice(tokenizer, 8192), request(None, TOOLS, messages)).ids)
    for name, number, result in zip(("now", "note", "now"), ids, ("first", "second", "third"), strict=True):
        assert f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>" in text
        assert f"## Return of functions.{name}:{number} {result}" in text
