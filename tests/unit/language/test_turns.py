from __future__ import annotations

from dataclasses import replace

import pytest

from ringleader.language.dialects.json_array import granite
from ringleader.language.template import CHATML
from ringleader.language.traits import Turn
from ringleader.language.turns import shaped
from ringleader.values import Message, Tool, ToolCall
from tests.unit.language.builders import NOW, WEATHER
from tests.unit.language.vocabulary import tokenizer_with

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

ALTERNATES_WITH_CALLS = NATIVE.replace(
    "{% for m in messages %}",
    "{% set n = namespace(i=0) %}{% for m in messages %}{% if m.role in ['user', 'assistant'] and not m.tool_calls %}"
    "{% if (m.role == 'user') != (n.i % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
    "{% set n.i = n.i + 1 %}{% endif %}",
)
# Knows tools and their results, but reads no calls.
RESULTS = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
)
NO_TEXT = NATIVE.replace("{{ m.content }}", "{% if not m.tool_calls %}{{ m.content }}{% endif %}", 1)

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
    takes_text = NATIVE.replace(
        "{% for k, v in call.function.arguments | items %} {{ k }}={{ v }}{% endfor %}", "{{ call.function.arguments }}"
    )
    found = turns(takes_text, (Message("assistant", "", tool_calls=(ToolCall("c", "now", broken),)),))
    assert found[0]["tool_calls"][0]["function"]["arguments"] == broken


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\ud800", "\ufffd"),
        (r"\ude00x", "\ufffdx"),
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\uD83D", "\\\ufffd"),
    ],
)
def test_half_a_character_in_arguments_becomes_one_that_a_tokenizer_takes(escaped: str, text: str) -> None:
    call = ToolCall("c", "now", f'{{"{escaped}": ["{escaped}"]}}')
    found = turns(NATIVE, (Message("assistant", "", tool_calls=(call,)),))
    assert found[0]["tool_calls"][0]["function"]["arguments"] == {text: [text]}


@pytest.mark.parametrize("content", [None, ""])
def test_empty_content_is_never_the_word_none(content: str | None) -> None:
    assert turns(NATIVE, (Message("assistant", content),))[0]["content"] == ""


def test_results_stay_turns_of_their_own_where_a_template_that_knows_tools_shows_them() -> None:
    turns, _ = shaped(RESULTS, LOOP, (WEATHER, NOW), ("", ""), granite(tokenizer_with()).history)
    calls = '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}, {"name": "now", "arguments": {}}]'
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "Weather?"),
        ("assistant", calls),
        ("tool", "rain"),
        ("tool", "noon"),
    ]


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


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_is_handed_over_under_the_key_that_the_template_reads(key: str) -> None:
    thinks = NATIVE.replace("{{ m.content }}", f"{{{{ m.{key} }}}}{{{{ m.content }}}}")
    assert turns(thinks, (Message("assistant", "A", reasoning="hm"),))[0][key] == "hm"
    assert set(turns(NATIVE, (Message("assistant", "A", reasoning="hm"),))[0]) == {"role", "content"}


def test_reasoning_comes_once_where_calls_are_split() -> None:
    thinks = ONE_CALL.replace("{{ m.content }}", "{{ m.thinking }}{{ m.content }}")
    messages = (LOOP[0], replace(LOOP[1], reasoning="hm"), *LOOP[2:])
    assert [turn.get("thinking") for turn in turns(thinks, messages)] == [None, "hm", None, None, None]


def test_text_beside_a_call_is_said_before_it_where_the_template_shows_none_there() -> None:
    found = turns(NO_TEXT, (LOOP[0], replace(LOOP[1], content="Let me see."), *LOOP[2:]))
    assert said(found)[:3] == [("user", "Weather?"), ("assistant", "Let me see."), ("assistant", "")]
    assert "tool_calls" not in found[1]
    assert len(found[2]["tool_calls"]) == 2


def test_text_beside_a_call_is_a_plan_where_only_reasoning_may_stand_there() -> None:
    plans = NO_TEXT.replace("{% for call", "{{ m.reasoning_content }}{% for call").replace(
        "{% for m in messages %}",
        "{% for m in messages %}{% if loop.previtem and m.tool_calls and loop.previtem.role == 'assistant' %}"
        "{{ raise_exception('alternate') }}{% endif %}",
    )
    found = turns(plans, (LOOP[0], replace(LOOP[1], content="Let me see.", reasoning="hm"), *LOOP[2:]))
    assert (found[1]["content"], found[1]["reasoning_content"]) == ("", "hm\n\nLet me see.")


def test_reasoning_and_text_are_one_where_a_call_may_have_but_one_of_them() -> None:
    either = NATIVE.replace(
        "{{ m.content }}",
        "{% if m.thinking and m.content %}{{ raise_exception('not both') }}{% endif %}{{ m.thinking }}{{ m.content }}",
    )
    found = turns(either, (LOOP[0], replace(LOOP[1], content="Let me see.", reasoning="hm"), *LOOP[2:]))
    assert (found[1]["content"], found[1]["thinking"]) == ("", "hm\n\nLet me see.")


def test_somebody_speaks_between_results_and_a_question_where_the_template_insists() -> None:
    again = (*LOOP, Message("user", "And now?"))
    assert [turn["role"] for turn in turns(ALTERNATES_WITH_CALLS, again)] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    assert turns(ALTERNATES_WITH_CALLS, again)[4]["content"] == ""
    assert len(turns(NATIVE, again)) == 5


def test_somebody_asks_first_where_the_template_insists() -> None:
    greeting = (Message("assistant", "Hello."), Message("user", "Hi."))
    assert said(turns(ALTERNATES_WITH_CALLS, greeting))[0] == ("user", "")
    assert said(turns(NATIVE, greeting))[0] == ("assistant", "Hello.")
    alone = (Message("system", "Be brief."), *greeting)
    assert [role for role, _ in said(turns(ALTERNATES_WITH_CALLS, alone))] == ["system", "user", "assistant", "user"]


def test_a_system_turn_alone_is_a_question_where_the_template_wants_one() -> None:
    asks = NATIVE.replace(
        "{% for m", "{% if messages[-1].role == 'system' %}{{ raise_exception('!') }}{% endif %}{% for m", 1
    )
    assert said(turns(asks, (Message("system", "Be brief."),))) == [("user", "Be brief.")]
    assert said(turns(NATIVE, (Message("system", "Be brief."),))) == [("system", "Be brief.")]


def test_a_system_text_that_is_lost_while_tools_are_used_stands_in_the_last_question() -> None:
    loses = (
        "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{% if loop.last and m.role == 'user' and "
        "messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call }}{% endfor %}{% endif %}{% endfor %}"
    )
    brief = (Message("system", "Be brief."), Message("user", "Hi."), Message("assistant", "Yes?"), *LOOP)
    assert said(turns(loses, brief))[:3] == [
        ("user", "Hi."),
        ("assistant", "Yes?"),
        ("user", "Be brief.\n\nWeather?"),
    ]
    assert said(turns(loses, brief[:2])) == [("system", "Be brief."), ("user", "Hi.")]


def test_calls_have_no_content_where_the_template_knows_calls_only_so() -> None:
    wants_none = NATIVE.replace(
        "{% for call in m.tool_calls or [] %}", "{% for call in m.tool_calls or [] if m.content is none %}"
    )
    found = turns(wants_none, LOOP)
    assert found[1]["content"] is None
    assert found[0]["content"] == "Weather?"


def test_arguments_are_json_text_where_the_template_wants_text() -> None:
    wants_text = NATIVE.replace(
        "{% for k, v in call.function.arguments | items %} {{ k }}={{ v }}{% endfor %}",
        "{{ 'x' + call.function.arguments }}",
    )
    call = turns(wants_text, LOOP)[1]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"city": "Oslo"}'


def test_broken_arguments_are_wrapped_where_the_template_wants_an_object() -> None:
    broken = (LOOP[0], Message("assistant", "", tool_calls=(ToolCall("c", "now", '{"a": '),)))
    assert turns(NATIVE, broken)[1]["tool_calls"][0]["function"]["arguments"] == {"arguments": '{"a": '}
