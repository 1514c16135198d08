from __future__ import annotations

from dataclasses import fields

import pytest

from ringleader.language.template import CHATML
from ringleader.language.traits import Traits, context, probe
from tests.unit.language.test_turns import (
    ALTERNATES,
    ALTERNATES_WITH_CALLS,
    FIRST_SYSTEM,
    NATIVE,
    NINE,
    NO_SYSTEM,
    NO_TEXT,
    ONE_CALL,
    RESULTS,
    WANTS_LIST,
)

NAMES = {field.name for field in fields(Traits)} - {"reasoning"}
OF_CALLS = {
    *("calls", "results", "many_calls", "any_id", "empty_content", "object_arguments", "any_arguments", "call_text"),
    *("call_after_text", "system_in_loop", "user_after_result"),
}
TWICE = NATIVE.replace("{% for call in m.tool_calls or [] %}", "{% for call in (m.tool_calls or []) * 2 %}")
NEVER = {"none_as_list", "reasoning_beside_text"}  # of these templates
NO_TOOLS = {"tools", "plain_parameters", *OF_CALLS}


@pytest.mark.parametrize(
    ("template", "lacks"),
    [
        (NATIVE, {"any_arguments"}),
        (CHATML, NO_TOOLS),
        (NO_SYSTEM, {"system", "system_late", "system_alone", *NO_TOOLS}),
        (FIRST_SYSTEM, {"system_late", *NO_TOOLS}),
        (ALTERNATES, {"repeats", *NO_TOOLS}),
        (
            ALTERNATES_WITH_CALLS,
            {"any_arguments", "repeats", "assistant_first", "user_after_result", "call_after_text"},
        ),
        (NINE, {"any_id", "any_arguments"}),
        (ONE_CALL, {"many_calls", "any_arguments"}),
        (NO_TEXT, {"call_text", "any_arguments"}),
        (TWICE, OF_CALLS - {"results", "user_after_result"}),
        (RESULTS, OF_CALLS - {"results", "user_after_result"}),
        (RESULTS.replace("{% for m in messages %}", "{% for m in messages if m.role != 'tool' %}"), OF_CALLS),
        ("{% syntax error", NAMES),
    ],
)
def test_a_template_shows_what_it_can(template: str, lacks: set[str]) -> None:
    found = probe(template, "", "")
    assert {name for name in NAMES - NEVER if not getattr(found, name)} == lacks - NEVER
    assert not any(getattr(found, name) for name in NEVER)
    assert found.reasoning == ""


def test_a_template_may_want_a_list_of_no_tools() -> None:
    assert probe(WANTS_LIST, "", "").none_as_list


def test_a_template_may_want_a_description_of_every_parameter() -> None:
    wants = (
        "{% for tool in tools or [] %}{{ tool.function.name }}"
        "{% for p in tool.function.parameters.properties.values() %}{{ p.description + '.' }}{% endfor %}{% endfor %}"
        + NATIVE.split("{% endif %}", 1)[1]
    )
    found = probe(wants, "", "")
    assert found.tools
    assert not found.plain_parameters
    assert found.calls


def test_a_template_that_reads_functions_gets_the_tools_under_that_name_as_text() -> None:
    wants = "{{ 'Today is ' + datetime + '. ' + functions }}" + NATIVE.split("{% endif %}", 1)[1]
    assert probe(wants, "", "").tools
    tool = {"type": "function", "function": {"name": "now"}}
    assert context(wants, [], [tool], ("", ""))["functions"] == '[\n    {\n        "name": "now"\n    }\n]'
    assert context(wants, [], None, ("", ""))["functions"] == "[]"
    assert "functions" not in context(NATIVE, [], [tool], ("", ""))
    assert "functions" not in context(NATIVE + "{{ functions }}", [], [tool], ("", ""))
