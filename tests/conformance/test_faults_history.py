"""Faults of histories (HI of the public log): turns as clients send them back, through the API's door and the template.

The families' real templates are put through two turns in test_templates.py; here they are small ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringleader.language.prompt import voice
from tests.conformance.saying import PLAIN, SOME, shown
from tests.conformance.serving import NOW, PING, asked, client_of
from tests.conformance.test_checklist import node
from tests.unit.language.dialects.family import Family
from tests.unit.language.vocabulary import with_template

ASK = {"role": "user", "content": "What time is it?"}
RESULT = {"role": "tool", "tool_call_id": "call_000000001", "content": "noon"}


def call(number: int = 1, name: str = "now", arguments: str = "{}") -> Any:
    return {"id": f"call_{number:09}", "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(*calls: Any, **more: Any) -> Any:
    return {"role": "assistant", "tool_calls": list(calls), **more}


def prompt(*messages: Any, family: Family = PLAIN) -> str:
    return shown(family, tools=[NOW, PING], messages=list(messages))


def speaking(template: str) -> Family:
    """A family whose model has this chat template."""
    tokenizer = with_template(PLAIN.tokenizer, template)
    made = replace(PLAIN, template=template)
    object.__setattr__(made, "tokenizer", tokenizer)
    object.__setattr__(made, "voice", voice(tokenizer, 8192))
    return made


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_hi01_hi02_hi03_hi09_no_content_is_no_content_however_it_is_not_there(family: Family) -> None:
    ways = [{"content": None}, {"content": ""}, {}, {"content": []}]
    prompts = {prompt(ASK, turn(call(), **way), RESULT, ASK, family=family) for way in ways}
    assert len(prompts) == 1, "null, empty and absent are the same turn"
    (text,) = prompts
    assert "None" not in text
    assert "now" in text.split("What time")[1], "the turn is kept"
    assert "noon" in text


async def test_hi04_a_failed_call_is_followed_by_an_answer() -> None:
    failed = {**RESULT, "content": "error: no clock"}
    async with client_of(node()) as client:
        body = asked(messages=[ASK, turn(call(), content=None), failed], tools=[NOW], tool_choice="none", max_tokens=20)
        answer = await client.chat.completions.create(**body)
    assert answer.choices[0].message.content


def test_hi05_arguments_are_an_object_for_templates_that_look_into_them() -> None:
    template = (
        "{# <tool_call> #}{{ tools | tojson if tools }}"
        "{% for message in messages %}{{ message.role }}: "
        "{% for made in message.tool_calls or [] %}{{ made.function.name }}"
        "{% for key, value in made.function.arguments | items %}[{{ key }}={{ value }}]{% endfor %}{% endfor %}"
        "{{ message.content }}\n{% endfor %}"
    )
    text = prompt(ASK, turn(call(1, "ping", '{"value": "x y"}')), RESULT, family=speaking(template))
    assert "[value=x y]" in text


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_hi05_arguments_are_not_encoded_twice(family: Family) -> None:
    text = prompt(ASK, turn(call(1, "ping", '{"value": "x y"}')), RESULT, family=family)
    assert "x y" in text
    assert '\\"value\\"' not in text


async def test_hi08_ids_are_unique_over_turns() -> None:
    seen: list[str] = []
    async with client_of(node()) as client:
        for seed in (1, 1, 2):
            answer = await client.chat.completions.create(**asked(tools=[NOW], tool_choice="now", seed=seed))
            seen += [each.id for each in answer.choices[0].message.tool_calls or []]
    assert len(seen) == len(set(seen)) == 3


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_hi10_results_are_paired_by_id_in_whatever_order_they_come(family: Family) -> None:
    first = {"role": "tool", "tool_call_id": "call_000000001", "content": "result one"}
    second = {"role": "tool", "tool_call_id": "call_000000002", "content": "result two"}
    calls = turn(call(1, "ping", '{"value": "one"}'), call(2, "ping", '{"value": "two"}'))
    ordered, reversed_ = (prompt(ASK, calls, *each, family=family) for each in ((first, second), (second, first)))
    assert ordered == reversed_
    assert ordered.index("result one") < ordered.index("result two")


def test_hi11_hi04_a_result_may_be_a_list_of_texts_and_may_be_empty() -> None:
    parts = {**RESULT, "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "on"}]}
    assert prompt(ASK, turn(call()), parts) == prompt(ASK, turn(call()), RESULT)
    assert prompt(ASK, turn(call()), {**RESULT, "content": ""})


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_hi14_developers_and_systems_may_speak_anywhere(family: Family) -> None:
    text = prompt(
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        ASK,
        {"role": "system", "content": "Now be quick."},
        {"role": "user", "content": "Well?"},
        family=family,
    )
    assert all(said in text for said in ("Be brief.", "Be kind.", "Now be quick.", "Well?"))


def test_hi_two_users_or_two_assistants_in_a_row_are_taken() -> None:
    text = prompt(ASK, ASK, {"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Two."}, ASK)
    assert text.count("What time") == 3
    assert "One." in text
    assert "Two." in text


def test_hi_reasoning_in_the_history_is_accepted() -> None:
    for key in ("reasoning_content", "reasoning"):
        assert "Hello" in prompt(ASK, {"role": "assistant", "content": "Hello", key: "hm"}, ASK)
