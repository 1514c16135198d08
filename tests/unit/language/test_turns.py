from __future__ import annotations

import pytest

from ringleader.language.template import CHATML
from ringleader.language.turns import Traits, Turn, probe, shaped
from ringleader.values import Message, Tool, ToolCall
from tests.unit.language.builders import NOW, WEATHER

# Small templates, each with the habits of a real family.
NATIVE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for call in m.tool_calls or [] %}({{ call.id }} {{ call.function.name }}"
    "{% for k, v in call.function.arguments | items %} {{ k }}={{ v }}{% endfor %}){% endfor %}{% endfor %}"
)
SHOWN = "[{{ m.role }}]{{ m.content }}"
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    f"{SHOWN}{{% endfor %}}"
)
FIRST_SYSTEM = f"{{% for m in messages %}}{{% if m.role != 'system' or loop.first %}}{SHOWN}{{% endif %}}{{% endfor %}}"
ALTERNATES = (
    "{% for m in messages %}{% if not loop.first and m.role == loop.previtem.role %}"
    "{{ raise_exception('must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
NINE = NATIVE.replace(
    "({{ call.id }}", "{% if call.id | length != 9 %}{{ raise_exception('9!') }}{% endif %}({{ call.id }}"
)
ONE_CALL = NATIVE.replace(
    "]{{ m.content }}",
    "]{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one!') }}{% endif %}{{ m.content }}",
    1,
)
WANTS_LIST = (
    "{% for tool in tools %}{{ tool.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}"
)

LOOP = (
    Message("user", "Weather?"),
    Message(
        "assistant",
        None,
        tool_calls=(ToolCall("call_one1", "get_weather", '{"city": "Oslo"}'), ToolCall("call_two2", "now", "")),
    ),
    Message("tool", "noon", tool_call_id="call_two2"),
    Message("tool", "rain", tool_call_id="call_one1"),
)


def turns(template: str, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> list[Turn]:
    return shaped(template, messages, tools, ("", ""))[0]


def said(found: list[Turn]) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"]) for turn in found]


@pytest.mark.parametrize(
    ("template", "lacks"),
    [
        (NATIVE, set()),
        (CHATML, {"tools", "calls", "any_id", "many_calls"}),
        (NO_SYSTEM, {"system", "system_late", "tools", "calls", "any_id", "many_calls"}),
        (FIRST_SYSTEM, {"system_late", "tools", "calls", "any_id", "many_calls"}),
        (ALTERNATES, {"repeats", "tools", "calls", "any_id", "many_calls"}),
        (NINE, {"any_id"}),
        (ONE_CALL, {"many_calls"}),
        ("{% syntax error", {"system", "system_late", "repeats", "tools", "calls", "any_id", "many_calls"}),
    ],
)
def test_a_template_shows_what_it_can(template: str, lacks: set[str]) -> None:
    names = ["system", "system_late", "repeats", "tools", "calls", "many_calls", "any_id"]
    assert probe(template, "", "") == Traits(**{name: name not in lacks for name in names}, none_as_list=False)


def test_absent_tools_are_a_list_only_for_a_template_that_wants_one() -> None:
    assert shaped(WANTS_LIST, LOOP[:1], (), ("", ""))[1] == []
    assert shaped(NATIVE, LOOP[:1], (), ("", ""))[1] is None


def test_calls_are_given_as_objects_and_results_in_the_order_of_the_calls() -> None:
    found = turns(NATIVE, LOOP, (WEATHER, NOW))
    assert [call["function"] for call in found[1]["tool_calls"]] == [
        {"name": "get_weather", "arguments": {"city": "Oslo"}},
        {"name": "now", "arguments": {}},
    ]
    assert found[1]["content"] == ""
    assert [(t["content"], t["tool_call_id"], t["name"]) for t in found[2:]] == [
        ("rain", "call_one1", "get_weather"),
        ("noon", "call_two2", "now"),
    ]


@pytest.mark.parametrize("broken", ['{"a": ', "text", "[1]", '"x"', "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500])
def test_arguments_that_are_no_object_stay_the_text_that_they_are(broken: str) -> None:
    found = turns(NATIVE, (Message("assistant", "", tool_calls=(ToolCall("c", "now", broken),)),))
    assert found[0]["tool_calls"][0]["function"]["arguments"] == broken


@pytest.mark.parametrize("content", [None, ""])
def test_empty_content_is_never_the_word_none(content: str | None) -> None:
    assert turns(NATIVE, (Message("assistant", content),))[0]["content"] == ""


def test_calls_and_results_are_written_as_text_for_a_template_that_has_no_form_for_them() -> None:
    found = turns(CHATML, (*LOOP, Message("user", "Go on.")))
    assert said(found) == [
        ("user", "Weather?"),
        (
            "assistant",
            """<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>
<tool_call>
{"name": "now", "arguments": {}}
</tool_call>""",
        ),
        ("user", "<tool_response>\nrain\n</tool_response>\n<tool_response>\nnoon\n</tool_response>"),
        ("user", "Go on."),
    ]


def test_tools_are_described_after_the_clients_own_system_text() -> None:
    (role, text), *rest = said(turns(CHATML, (Message("system", "Be brief."), *LOOP[:1]), (WEATHER,)))
    assert role == "system"
    assert text.startswith("Be brief.\n\n")
    assert '"name": "get_weather"' in text
    assert rest == [("user", "Weather?")]
    assert said(turns(CHATML, LOOP[:1], (WEATHER,)))[0][0] == "system"


def test_system_turns_go_where_the_template_shows_them() -> None:
    messages = (
        Message("system", "A"),
        Message("user", "B"),
        Message("assistant", "C"),
        Message("system", "D"),
        Message("user", "E"),
    )
    assert said(turns(NATIVE, messages)) == [
        ("system", "A"),
        ("user", "B"),
        ("assistant", "C"),
        ("system", "D"),
        ("user", "E"),
    ]
    assert said(turns(FIRST_SYSTEM, messages)) == [
        ("system", "A\n\nD"),
        ("user", "B"),
        ("assistant", "C"),
        ("user", "E"),
    ]
    assert said(turns(NO_SYSTEM, messages)) == [("user", "A\n\nD\n\nB"), ("assistant", "C"), ("user", "E")]
    assert said(turns(NO_SYSTEM, messages[:1])) == [("user", "A")]


def test_turns_in_a_row_are_merged_only_where_the_template_refuses_them() -> None:
    messages = (Message("user", "A"), Message("user", "B"), Message("assistant", ""), Message("assistant", "C"))
    assert said(turns(ALTERNATES, messages)) == [("user", "A\n\nB"), ("assistant", "C")]
    assert len(turns(NATIVE, messages)) == 4


def test_ids_are_shortened_alike_for_call_and_result() -> None:
    messages = tuple(
        Message(
            m.role,
            m.content,
            tool_calls=tuple(ToolCall("long_" + c.id, c.name, c.arguments) for c in m.tool_calls),
            tool_call_id=m.tool_call_id and "long_" + m.tool_call_id,
        )
        for m in LOOP
    )
    found = turns(NINE, messages, (WEATHER, NOW))
    ids = [call["id"] for call in found[1]["tool_calls"]]
    assert ids == [turn["tool_call_id"] for turn in found[2:]]
    assert all(len(id_) == 9 and id_.isalnum() for id_ in ids)
    assert len(set(ids)) == 2


def test_calls_made_together_are_split_for_a_template_that_takes_one() -> None:
    found = turns(ONE_CALL, (*LOOP, Message("assistant", "Rain at noon.")), (WEATHER, NOW))
    assert [(t["role"], t.get("tool_call_id") or [c["id"] for c in t.get("tool_calls", ())]) for t in found] == [
        ("user", []),
        ("assistant", ["call_one1"]),
        ("tool", "call_one1"),
        ("assistant", ["call_two2"]),
        ("tool", "call_two2"),
        ("assistant", []),
    ]


def test_reasoning_is_handed_to_templates_that_keep_it() -> None:
    assert turns(NATIVE, (Message("assistant", "A", reasoning="hm"),))[0]["reasoning_content"] == "hm"
