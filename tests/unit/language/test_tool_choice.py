from __future__ import annotations

import re

import pytest

from ringleader.errors import BadRequest
from ringleader.language.tool_choice import CALLS_MAX, ToolChoice, normalise
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOTE, NOW, WEATHER

TOOLS = (WEATHER, NOW)
BOTH = ("get_weather", "now")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, ToolChoice("auto", BOTH, 0, CALLS_MAX)),
        ("auto", ToolChoice("auto", BOTH, 0, CALLS_MAX)),
        ({"type": "auto"}, ToolChoice("auto", BOTH, 0, CALLS_MAX)),
        ("none", ToolChoice("none", (), 0, 0)),
        ("required", ToolChoice("required", BOTH, 1, CALLS_MAX)),
        ("any", ToolChoice("required", BOTH, 1, CALLS_MAX)),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required", BOTH, 1, 1)),
        ("now", ToolChoice("required", ("now",), 1, 1)),
        ({"type": "function", "function": {"name": "now"}}, ToolChoice("required", ("now",), 1, 1)),
        ({"type": "function", "name": "now"}, ToolChoice("required", ("now",), 1, 1)),
        ({"type": "tool", "name": "now"}, ToolChoice("required", ("now",), 1, 1)),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
            },
            ToolChoice("required", ("now",), 1, CALLS_MAX),
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]},
            ToolChoice("auto", ("now",), 0, CALLS_MAX),
        ),
    ],
)
def test_every_spelling_of_a_choice_is_read(raw: Json, expected: ToolChoice) -> None:
    assert normalise(raw, TOOLS, True) == expected


@pytest.mark.parametrize("raw", [None, "auto", "none"])
def test_a_choice_that_forces_nothing_needs_no_tools(raw: Json) -> None:
    assert normalise(raw, (), True) == ToolChoice("none", (), 0, 0)


@pytest.mark.parametrize(("raw", "least"), [("auto", 0), ("required", 1)])
def test_without_parallel_calls_there_is_at_most_one(raw: str, least: int) -> None:
    choice = normalise(raw, TOOLS, False)
    assert (choice.least, choice.most) == (least, 1)


def test_an_unknown_tool_is_named_with_the_tools_and_the_nearest_name() -> None:
    bash = Tool("bash")
    with pytest.raises(BadRequest) as caught:
        normalise({"type": "function", "function": {"name": "get_wether"}}, (WEATHER, bash), True)
    assert str(caught.value) == (
        "tool_choice names 'get_wether', which is not among tools: bash, get_weather. Did you mean get_weather?"
    )
    assert (caught.value.param, caught.value.code) == ("tool_choice", "unknown_tool")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"type": "custom", "name": "now"}, "'now' as a custom tool, but in 'tools' it is a function tool."),
        ({"type": "custom", "custom": {"name": "now"}}, "'now' as a custom tool"),
        ({"type": "function", "name": "say"}, "'say' as a function tool, but in 'tools' it is a custom tool."),
        ({"type": "function", "function": {"name": "say"}}, "'say' as a function tool"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "now"}]}, "'now' as a custom"),
    ],
)
def test_a_choice_that_names_a_tool_of_the_other_kind_is_refused(raw: Json, words: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(words)) as caught:
        normalise(raw, (NOW, Tool("say", kind="custom")), True)
    assert (caught.value.param, caught.value.code) == ("tool_choice", "wrong_tool_type")


@pytest.mark.parametrize("raw", ["required", "any", "now", {"type": "function", "function": {"name": "now"}}])
def test_a_forced_choice_without_tools_is_refused(raw: Json) -> None:
    with pytest.raises(BadRequest, match="only allowed when 'tools' are specified") as caught:
        normalise(raw, (), True)
    assert caught.value.param == "tool_choice"


@pytest.mark.parametrize(
    ("raw", "got"),
    [
        (7, "a number"),
        (True, "a boolean"),
        (["now"], "a list"),
        ({}, "without 'type'"),
        ({"type": "mcp"}, "'mcp'"),
        ({"type": ["function"]}, 'has the type ["function"]'),
        ({"type": True}, "has the type true"),
        ({"type": "allowed_tools", "mode": None, "tools": [{"name": "now"}]}, "has allowed_tools.mode null"),
        ({"type": "allowed_tools", "mode": {}, "tools": [{"name": "now"}]}, "has allowed_tools.mode"),
        ({"type": "function"}, "names no function"),
        ({"type": "function", "function": {"name": 3}}, "names no function"),
        ({"type": "function", "function": "x", "name": "now"}, "names no function"),
        ({"type": "allowed_tools", "allowed_tools": []}, "a list, not an object"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [{"name": "now"}]}}, "'none'"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "not empty"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [None]}}, "names no function"),
    ],
)
def test_a_wrong_shape_is_told_what_was_got_and_what_is_accepted(raw: Json, got: str) -> None:
    with pytest.raises(BadRequest) as caught:
        normalise(raw, (WEATHER, NOW, NOTE), True)
    assert got in str(caught.value)
    assert '"required" (or "any"), the name of a tool, {' in str(caught.value)
    assert caught.value.param == "tool_choice"
