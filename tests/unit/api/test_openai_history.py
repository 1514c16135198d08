"""Turns of the history that are not plain ones: custom calls, and functions as they were before there were tools."""

from __future__ import annotations

from ringleader.api.openai_read import read_chat
from ringleader.values import Json, Message, ToolCall
from tests.api.scripted import body


def read(*turns: Json) -> tuple[Message, ...]:
    return read_chat(body(messages=[{"role": "user", "content": "hi"}, *turns])).request.messages[1:]


def test_function_calls_and_results_are_paired_by_ids_of_our_own() -> None:
    turns = read(
        {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "one"},
        {"role": "assistant", "content": "so", "tool_calls": None, "function_call": {"name": "g"}},
        {"role": "function", "name": "g", "content": None},
        {"role": "assistant", "content": "done", "function_call": None},
    )
    assert turns == (
        Message("assistant", tool_calls=(ToolCall("fn0000001", "f", '{"a": 1}'),)),
        Message("tool", "one", tool_call_id="fn0000001", name="f"),
        Message("assistant", "so", tool_calls=(ToolCall("fn0000003", "g", ""),)),
        Message("tool", None, tool_call_id="fn0000003", name="g"),
        Message("assistant", "done"),
    )


def test_custom_calls_keep_their_input_as_it_is() -> None:
    called = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": '*** "x"\n'}}
    turns = read(
        {"role": "assistant", "tool_calls": [called, {**called, "id": "c2", "custom": {"name": "patch"}}]},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
    )
    assert turns[0].tool_calls == (
        ToolCall("c1", "patch", '*** "x"\n', "custom"),
        ToolCall("c2", "patch", "", "custom"),
    )
