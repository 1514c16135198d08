"""A conversation that does not fit loses its oldest turns, a few at a time, and stays a conversation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ringleader.api.responses_fit import shorter
from ringleader.language.prompt import check_history
from ringleader.values import ChatRequest, Message, ModelId, Sampling, ToolCall

TRIES_MAX = 64


def request(*messages: Message) -> ChatRequest:
    return ChatRequest(ModelId("m"), messages, Sampling(seed=1))


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    kind = draw(st.sampled_from(["user", "assistant", "system", "call"]))
    if kind != "call":
        return [Message(kind, "x")]  # type: ignore[arg-type] # one of the roles
    ids = draw(st.sampled_from([("1",), ("1", "2")]))
    called = Message("assistant", None, tool_calls=tuple(ToolCall(each, "f", "{}") for each in ids))
    return [called, *(Message("tool", "y", tool_call_id=each) for each in ids)]


@given(st.lists(turns(), min_size=1, max_size=300))
def test_each_try_is_shorter_and_a_good_history_and_the_last_is_soon_reached(parts: list[list[Message]]) -> None:
    asked = request(*(message for part in parts for message in part))
    said = [message for message in asked.messages if message.role == "system"]
    users = [message for message in asked.messages if message.role == "user"]
    others = [message for message in asked.messages if message.role != "system"]
    tries = 0
    while (cut := shorter(asked)) is not None:
        assert len(cut.messages) < len(asked.messages)
        check_history(cut.messages)
        assert [message for message in cut.messages if message.role == "system"] == said
        assert not users or any(message.role == "user" for message in cut.messages)
        assert cut.messages[-1] is others[-1]
        asked, tries = cut, tries + 1
    assert tries <= TRIES_MAX


def test_the_oldest_go_first_and_a_result_goes_with_its_call() -> None:
    call = Message("assistant", None, tool_calls=(ToolCall("1", "f", "{}"),))
    result = Message("tool", "y", tool_call_id="1")
    cut = shorter(request(Message("user", "a"), call, result, Message("user", "b")))
    assert cut is not None
    assert [message.role for message in cut.messages] == ["assistant", "tool", "user"]
    again = shorter(cut)
    assert again is not None
    assert [message.content for message in again.messages] == ["b"]
    assert shorter(again) is None
