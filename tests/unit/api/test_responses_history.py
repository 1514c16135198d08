"""Items to turns: what a model did between two turns of others is one turn, and every call has its output after it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.api.responses_history import Placed, read_items
from ringleader.api.responses_items import kept, parse_item
from ringleader.api.responses_read import replayed
from ringleader.api.sealed import seal, unseal
from ringleader.errors import BadRequest
from ringleader.language.prompt import check_history
from ringleader.values import Message

USER: Any = {"role": "user", "content": "hi"}
Item = dict[str, Any]


def said(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def thought(text: str) -> Item:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def call(id_: str) -> Item:
    return {"type": "function_call", "call_id": id_, "name": "f", "arguments": "{}"}


def output(id_: str, text: str = "x") -> Item:
    return {"type": "function_call_output", "call_id": id_, "output": text}


SEARCH: Item = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "wétter"},
}


def read(*items: Item) -> tuple[Message, ...]:
    return read_items(replayed([{"type": "message", **item} for item in items], "input"))


def shape(*items: Item) -> list[str]:
    """Each turn's role, with the ids of its calls, or of the call that it answers."""
    turns = read(*items)
    check_history(turns)
    return [
        " ".join(
            [turn.role, *(each.id for each in turn.tool_calls), *([turn.tool_call_id] if turn.tool_call_id else [])]
        )
        for turn in turns
    ]


def test_what_a_model_thought_said_and_called_is_one_turn() -> None:
    turn = read(USER, thought("a"), thought("b"), said("c"), call("1"), output("1"))[1]
    assert (turn.reasoning, turn.content, [each.id for each in turn.tool_calls]) == ("a\n\nb", "c", ["1"])


def test_two_rounds_of_calls_are_two_turns_and_parallel_ones_are_one() -> None:
    assert shape(USER, call("1"), output("1"), call("2"), output("2"))[1:] == [
        "assistant 1",
        "tool 1",
        "assistant 2",
        "tool 2",
    ]
    assert shape(USER, call("1"), call("2"), output("2"), output("1"))[1:] == ["assistant 1 2", "tool 2", "tool 1"]


def test_calls_and_outputs_that_are_mixed_become_one_turn_with_its_results() -> None:
    mixed = (call("1"), call("2"), output("1"), call("3"), output("3"), said("so"), output("2"))
    assert shape(USER, *mixed)[1:] == ["assistant 1 2 3", "tool 1", "tool 3", "tool 2"]


def test_what_a_user_says_between_a_call_and_its_output_comes_after_it() -> None:
    assert shape(USER, call("1"), USER, output("1"), said("done")) == [
        "user",
        "assistant 1",
        "tool 1",
        "user",
        "assistant",
    ]


def test_two_messages_of_the_model_in_a_row_stay_two() -> None:
    assert [turn.content for turn in read(said("a"), said("b"))] == ["a", "b"]


def test_a_thought_after_an_answer_begins_a_new_turn() -> None:
    assert [(turn.content, turn.reasoning) for turn in read(said("a"), thought("t"), said("b"))] == [
        ("a", None),
        ("b", "t"),
    ]


def test_the_shells_calls_and_outputs_are_calls_like_any_other() -> None:
    action = {"type": "exec", "command": ["ls"], "env": {}}
    shell = {"type": "local_shell_call", "id": "i", "call_id": "c", "action": action, "status": "completed"}
    for answered in ({"call_id": "c"}, {"id": "c"}):
        _, turn, gave = read(USER, shell, {"type": "local_shell_call_output", "output": "out", **answered})
        assert (turn.tool_calls[0].name, turn.tool_calls[0].arguments) == (
            "local_shell",
            '{"command": ["ls"], "env": {}}',
        )
        assert (gave.tool_call_id, gave.content) == ("c", "out")


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ((USER, output("1")), "No tool call found for function call output with call_id '1'"),
        ((USER, call("1"), output("1"), output("1")), "No tool call found"),
        ((USER, call("1")), "No tool output found for function call 1"),
        ((USER, call("1"), USER), "No tool output found for function call 1"),
        ((USER, call("1"), call("1")), "another call of this turn has the id '1'"),
        ((USER, call("1"), {**output("1"), "type": "custom_tool_call_output"}), "is a 'function_call_output'"),
    ],
)
def test_calls_and_outputs_that_do_not_match_are_refused(items: tuple[Item, ...], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        read(*items)


@given(
    st.lists(
        st.sampled_from([USER, said("a"), thought("t"), SEARCH, call("1"), call("2"), output("1"), output("2")]),
        max_size=9,
    )
)
def test_whatever_is_accepted_is_a_history_that_prompts_can_be_made_of(items: list[Item]) -> None:
    try:
        turns = read(*items)
    except BadRequest:
        return
    if turns:
        check_history(turns)
    assert sum(len(turn.tool_calls) for turn in turns) == sum(turn.role == "tool" for turn in turns)
    assert [turn.role for turn in turns if turn.role == "user"] == ["user" for item in items if item is USER]


@given(st.text())
def test_sealed_reasoning_comes_back_as_it_was(text: str) -> None:
    assert unseal(seal(text)) == text
    item = {"type": "reasoning", "summary": [], "encrypted_content": seal(text)}
    assert "".join(turn.reasoning or "" for turn in read(item)) == text


@pytest.mark.parametrize("sealed", ["", "x", "rl1.", "rl1.!!", "rl1.AAAA", seal("abc")[:-4], "gAAAAABq"])
def test_what_was_not_sealed_here_is_not_read(sealed: str) -> None:
    assert unseal(sealed) is None


def test_reasoning_of_others_is_read_from_its_summary() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"}
    assert read(item)[0].reasoning == "s"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (SEARCH, '[web_search_call] {"action": {"type": "search", "query": "wétter"}}'),
        ({"type": "web_search_call", "status": "failed", "action": None}, '[web_search_call] {"status": "failed"}'),
        (
            {"type": "mcp_call", "id": "m", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
            '[mcp_call] {"server_label": "s", "name": "n", "arguments": "{}", "output": "o"}',
        ),
        (
            {"type": "code_interpreter_call", "container_id": "c", "code": "1+1", "outputs": [{"logs": "2"}]},
            '[code_interpreter_call] {"code": "1+1", "outputs": [{"logs": "2"}]}',
        ),
        ({"type": "image_generation_call", "id": "i", "result": "aGk="}, ""),
        ({"type": "computer_call_output", "call_id": "c", "output": {"image_url": "data:"}}, ""),
    ],
)
def test_what_tools_did_elsewhere_is_told_in_the_models_own_turn(item: Item, words: str) -> None:
    _, turn, *_ = read(USER, thought("a"), item, thought("b"), said("c"), call("1"), output("1"))
    assert (turn.reasoning, turn.content) == ("a\n\nb", f"{words}\n\nc" if words else "c")
    assert [each.id for each in turn.tool_calls] == ["1"]


def test_what_tools_did_after_a_message_comes_after_it_and_alone_it_is_a_turn() -> None:
    first, second = read(USER, said("a"), SEARCH, said("b"))[1:]
    assert (str(first.content)[:18], second.content) == ("a\n\n[web_search_cal", "b")
    assert [turn.role for turn in read(USER, SEARCH, USER)] == ["user", "assistant", "user"]


def test_items_of_tools_elsewhere_are_kept_as_they_came() -> None:
    assert kept(SEARCH, "web_search_call") == SEARCH
    assert kept({"type": "mcp_approval_response", "approve": True}, "mcp_approval_response")["id"]


def test_an_item_is_kept_with_an_id_and_parts() -> None:
    stored = kept(USER, "message")
    assert stored["id"].startswith("msg_")
    assert stored["content"] == [{"type": "input_text", "text": "hi"}]
    assert kept({**USER, "id": "mine"}, "message")["id"] == "mine"


@pytest.mark.parametrize("arguments", ["{", "[]", "x", "[" * 100_000])
def test_a_call_that_was_cut_off_and_has_no_output_is_named(arguments: str) -> None:
    with pytest.raises(BadRequest, match=r"No tool output found for function call 1\..*'input\[0\]\.arguments'"):
        read_items([Placed(parse_item({**call("1"), "arguments": arguments}, 0), "input[0]")])
    with pytest.raises(BadRequest) as caught:
        read(call("1"))
    assert "arguments" not in str(caught.value)
