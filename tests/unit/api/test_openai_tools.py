"""Tools of both kinds, and functions as they were before there were tools."""

from __future__ import annotations

import pytest

from ringleader.api.openai_read import read_chat
from ringleader.api.openai_tools import ToolsAsked, in_functions_words, places_of_functions
from ringleader.errors import BadRequest
from ringleader.language.tool_choice import normalise
from ringleader.values import CustomGrammar, Json, Tool
from tests.api.scripted import NOW, WEATHER, body

LARK = {"syntax": "lark", "definition": 'start: "a"'}


def custom(**fields: Json) -> Json:
    return {"type": "custom", "custom": fields}


def asked(**fields: Json) -> ToolsAsked:
    return read_chat(body(**fields)).calls


def test_custom_tools_arrive_with_their_grammars() -> None:
    tools = [
        custom(name="free"),
        custom(name="text", description="d", format={"type": "text"}),
        custom(name="patch", format={"type": "grammar", "grammar": LARK}),
        custom(name="patch", format={"type": "grammar", "grammar": LARK}),
        NOW,
    ]
    found = asked(tools=tools)
    assert found.tools == (
        Tool("free", kind="custom"),
        Tool("text", "d", kind="custom"),
        Tool("patch", kind="custom", grammar=CustomGrammar("lark", 'start: "a"')),
        Tool("patch", kind="custom", grammar=CustomGrammar("lark", 'start: "a"')),
        Tool("now"),
    ), "repeated ones stay, so that every tool keeps the client's number"
    assert found.custom == {"free", "text", "patch"}


def test_functions_are_tools_of_which_one_may_be_called() -> None:
    function = WEATHER["function"]
    request = read_chat(body(functions=[function], parallel_tool_calls=True)).request
    assert request.tools == (Tool("get_weather", "", function["parameters"]),)
    assert not request.parallel_tool_calls
    assert asked(functions=[function]).legacy
    assert not asked(functions=[], tools=[WEATHER]).legacy


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, None),
        ("none", "none"),
        ("auto", "auto"),
        ({"name": "now"}, {"type": "function", "function": {"name": "now"}}),
    ],
)
def test_a_choice_of_functions_is_a_choice_of_tools(choice: Json, read: Json) -> None:
    found = asked(functions=[NOW["function"]], function_call=choice)
    assert found.choice == read
    assert found.named == isinstance(choice, dict)


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ("auto", False),
        ("any", False),
        ("now", True),
        ({"type": "function", "function": {"name": "now"}}, True),
        ({"type": "custom", "custom": {"name": "now"}}, True),
        ({"type": "allowed_tools", "allowed_tools": {}}, False),
        ({"type": "required"}, False),
        (None, False),
        (7, False),
    ],
)
def test_only_a_choice_of_one_tool_is_a_named_one(choice: Json, named: bool) -> None:
    assert asked(tools=[NOW], tool_choice=choice).named == named


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ("auto", False),
        ("none", False),
        (None, False),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, False),
        ({"type": "allowed_tools", "allowed_tools": 7}, False),
        ("required", True),
        ("any", True),
        ("now", True),
        ({"type": "any"}, True),
        ({"type": "function", "function": {"name": "now"}}, True),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, True),
    ],
)
def test_a_choice_that_wants_a_call_wants_no_text(choice: Json, forced: bool) -> None:
    assert asked(tools=[NOW], tool_choice=choice).forced == forced


def test_the_words_of_a_wrong_choice_are_those_of_functions_too() -> None:
    with pytest.raises(BadRequest) as caught:
        normalise({"type": "function", "function": {"name": "nov"}}, (Tool("now"),), False)
    fault = in_functions_words(caught.value)
    assert str(fault) == "function_call names 'nov', which is not among functions: now. Did you mean now?"
    fault = in_functions_words(BadRequest("the tools cannot be. Send fewer or simpler tools.", param="tools"))
    assert (str(fault), fault.param) == ("the functions cannot be. Send fewer or simpler functions.", "functions")
    assert places_of_functions("tools[2].function.parameters: x") == "functions[2].parameters: x"


def test_a_fault_about_tools_is_told_in_words_of_functions() -> None:
    fault = in_functions_words(BadRequest("tool_choice names 'x'", param="tool_choice", code="unknown_tool"))
    assert (str(fault), fault.param, fault.code) == ("function_call names 'x'", "function_call", "unknown_tool")
    fault = in_functions_words(BadRequest("bad", param="tools[3].function.parameters"))
    assert fault.param == "functions[3].parameters"
    assert in_functions_words(BadRequest("bad")).param is None
