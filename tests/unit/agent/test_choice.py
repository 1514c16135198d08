"""A step's choice of tools comes out in OpenAI's wire form, or as a ValueError that names it and the set."""

from __future__ import annotations

import pytest

from ringleader.agent.contracts import normalize_tool_choice
from ringleader.values import Json

NAMES = ("verify_fact", "calculator")
VERIFY = {"type": "function", "function": {"name": "verify_fact"}}


@pytest.mark.parametrize(
    ("spelled", "wire"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("any", "required"),
        ("required", "required"),
        ("none", "none"),
        ("verify_fact", VERIFY),
        (VERIFY, VERIFY),
        ({"type": "tool", "name": "verify_fact"}, VERIFY),
        ({"type": "function", "name": "verify_fact"}, VERIFY),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "verify_fact"}]},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [VERIFY]}},
        ),
    ],
)
def test_every_spelling_has_one_wire_form(spelled: Json, wire: Json) -> None:
    assert normalize_tool_choice(spelled, NAMES) == wire


def test_any_stays_any_where_there_is_one_tool() -> None:
    assert normalize_tool_choice("any", ["verify_fact"]) == "required"
    assert normalize_tool_choice("verify_fact", ["verify_fact"]) == VERIFY


def test_the_wire_form_is_read_as_itself() -> None:
    for choice in ("auto", "required", "none", VERIFY):
        assert normalize_tool_choice(normalize_tool_choice(choice, NAMES), NAMES) == choice


@pytest.mark.parametrize(
    "typo",
    [
        "verify_facts",
        {"type": "tool", "name": "verify_facts"},
        {"type": "function", "function": {"name": "verify_facts"}},
    ],
)
def test_a_forced_tool_outside_the_set_is_a_value_error_that_names_both(typo: Json) -> None:
    with pytest.raises(ValueError, match="verify_facts") as told:
        normalize_tool_choice(typo, NAMES)
    assert "calculator, verify_fact" in str(told.value)
    assert "Did you mean verify_fact?" in str(told.value)


@pytest.mark.parametrize("forced", ["verify_fact", "any", {"type": "any"}])
def test_nothing_can_be_forced_where_there_are_no_tools(forced: Json) -> None:
    with pytest.raises(ValueError, match="set of tools is empty"):
        normalize_tool_choice(forced, ())


def test_without_tools_auto_and_none_stay_what_they_are() -> None:
    assert normalize_tool_choice("auto", ()) == "auto"
    assert normalize_tool_choice("none", ()) == "none"
    assert normalize_tool_choice({"type": "none"}, ()) == "none"


@pytest.mark.parametrize(
    "nonsense", [7, True, ["auto"], {}, {"type": "tool"}, {"type": "any", "disable_parallel_tool_use": True}]
)
def test_what_has_no_known_form_is_a_value_error(nonsense: Json) -> None:
    with pytest.raises(ValueError, match="tool_choice"):
        normalize_tool_choice(nonsense, NAMES)
