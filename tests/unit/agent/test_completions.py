"""The canonical dict, read: what servers really send, and what is no answer."""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.agent.backends.faults import BackendGarbled
from ringleader.agent.completions import Call, Completion, Tokens, read_completion


def call(arguments: Any = "{}", **fields: Any) -> Any:
    return {"id": "a", "function": {"name": "look", "arguments": arguments}, **fields}


def test_a_whole_dict_comes_back_as_it_was_written() -> None:
    turn = Completion("hi", (Call("a", "look", '{"x": 1}'),), "tool_calls", Tokens(3, 4), "hm", "m")
    assert read_completion(turn.as_dict(), "x") == turn


def test_an_empty_dict_is_an_empty_turn() -> None:
    assert read_completion({}, "x") == Completion("")


@pytest.mark.parametrize(("sent", "read"), [(None, "{}"), ("", "{}"), ({"a": "ü"}, '{"a": "ü"}'), ("{bro", "{bro")])
def test_arguments_are_text_however_they_were_sent(sent: Any, read: str) -> None:
    assert read_completion({"tool_calls": [call(sent)]}, "x").calls[0].arguments == read


def test_calls_without_ids_or_with_equal_ones_can_be_told_apart() -> None:
    missing = read_completion({"tool_calls": [call(id=None), call(id="")]}, "x")
    assert [each.id for each in missing.calls] == ["call_0", "call_1"]
    equal = read_completion({"tool_calls": [call(), call()]}, "x")
    assert [each.id for each in equal.calls] == ["a_0", "a_1"]


@pytest.mark.parametrize(("finish", "read"), [("eos", "stop"), (None, "stop"), ("length", "length"), (7, "stop")])
def test_a_finish_that_nobody_knows_is_a_stop(finish: Any, read: str) -> None:
    assert read_completion({"finish_reason": finish}, "x").finish == read


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("text", "it"),
        ({"content": 7}, "content"),
        ({"tool_calls": [{"function": {}}]}, "tool_calls.0.function.name"),
        ({"tool_calls": [call(7)]}, "tool_calls.0.function.arguments"),
        ({"usage": {"prompt_tokens": -1}}, "usage.prompt_tokens"),
        ({"tool_calls": [call()] * 200}, "tool_calls"),
    ],
)
def test_what_is_no_completion_is_told_with_its_place_and_its_source(raw: Any, place: str) -> None:
    with pytest.raises(BackendGarbled, match=f"ring gave .*{place}"):
        read_completion(raw, "ring")
