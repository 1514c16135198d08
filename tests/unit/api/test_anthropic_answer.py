"""Deltas to Anthropic's events and messages, rule by rule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ringleader.api.anthropic_answer import SIGNATURE, Frame, MessageEvents, WholeMessage
from ringleader.api.anthropic_read import Shown
from ringleader.api.anthropic_shapes import MessageBody, MessageEvent
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from tests.api.anthropic_rules import checked
from tests.api.delta_strategies import answers
from tests.api.scripted import CALLS, HELLO, USAGE

EVENT: TypeAdapter[Any] = TypeAdapter(MessageEvent)


def frame(thinking: Shown = "shown", max_tokens: int = 7, edits: bool = False) -> Frame:
    return Frame("msg_1", "m", 11, max_tokens, thinking, edits)


def events_of(deltas: tuple[Delta, ...], made: Frame | None = None) -> list[dict[str, Any]]:
    events = MessageEvents(made or frame())
    found = [*events.begin()]
    for delta in deltas:
        assert not events.complete
        found += events.of(0, delta)
    assert events.complete
    return found


def message_of(deltas: tuple[Delta, ...], made: Frame | None = None) -> dict[str, Any]:
    whole = WholeMessage(made or frame())
    for delta in deltas:
        whole.add(0, delta)
    assert whole.complete
    return whole.body()


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    content = [{key: value for key, value in block.items() if key != "id"} for block in message["content"]]
    return {**message, "content": content}


def told(text: str, cut: bool) -> Any:
    return {} if cut else json.loads(text)


@given(answers(), st.sampled_from(["shown", "omitted", "hidden"]))
def test_any_answers_events_obey_the_rules_and_add_up_to_its_message(deltas: tuple[Delta, ...], shown: Shown) -> None:
    streamed = checked(events_of(deltas, frame(shown)))
    whole = message_of(deltas, frame(shown))
    for made, other in zip(streamed["content"], whole["content"], strict=True):
        if made["type"] == "tool_use" and made["input"] is None:  # it was cut: the whole message has what there is
            assert isinstance(other["input"], dict)
            made["input"] = other["input"]
    assert without_ids(streamed) == without_ids(whole)


@given(answers(), st.sampled_from(["shown", "omitted", "hidden"]), st.booleans())
def test_any_answers_events_and_message_have_the_shapes_that_are_told(
    deltas: tuple[Delta, ...], shown: Shown, edits: bool
) -> None:
    for event in events_of(deltas, frame(shown, edits=edits)):
        EVENT.validate_python(event)
    MessageBody.model_validate(message_of(deltas, frame(shown, edits=edits)))


@given(answers())
def test_nothing_that_was_said_is_lost(deltas: tuple[Delta, ...]) -> None:
    content = message_of(deltas)["content"]

    def said(kind: type[TextDelta] | type[ReasoningDelta]) -> str:
        return "".join("".join(delta.text for delta in deltas if isinstance(delta, kind)).split())

    assert "".join("".join(block.get("text", "") for block in content).split()) == said(TextDelta)
    assert "".join("".join(block.get("thinking", "") for block in content).split()) == said(ReasoningDelta)
    calls = [delta.name for delta in deltas if isinstance(delta, CallStarted)]
    assert [block["name"] for block in content if block["type"] == "tool_use"] == calls


def test_an_answer_with_thinking_and_calls_has_the_real_streams_order() -> None:
    events = events_of(CALLS)
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    message = checked(events)
    assert message["stop_reason"] == "tool_use"
    assert message["content"][0] == {"type": "thinking", "thinking": "hm", "signature": SIGNATURE}
    assert [block["input"] for block in message["content"][1:]] == [{"city": "Oslo"}, {}]


def test_thinking_that_nobody_asked_for_is_counted_and_not_shown() -> None:
    message = message_of(CALLS, frame("hidden"))
    assert [block["type"] for block in message["content"]] == ["tool_use", "tool_use"]
    assert message["usage"]["output_tokens_details"] == {"thinking_tokens": 2}


def test_omitted_thinking_is_a_signed_block_without_text() -> None:
    block = message_of(CALLS, frame("omitted"))["content"][0]
    assert block == {"type": "thinking", "thinking": "", "signature": SIGNATURE}


@pytest.mark.parametrize(
    ("finished", "max_tokens", "reason", "sequence"),
    [
        (Finished("stop", USAGE), 7, "end_turn", None),
        (Finished("stop", USAGE, stopped_by="END"), 7, "stop_sequence", "END"),
        (Finished("tool_calls", USAGE, stopped_by="END"), 7, "tool_use", None),
        (Finished("length", USAGE), 7, "max_tokens", None),
        (Finished("length", USAGE), 64000, "model_context_window_exceeded", None),
    ],
)
def test_each_end_has_its_reason(finished: Finished, max_tokens: int, reason: str, sequence: str | None) -> None:
    deltas = (CallStarted(0, "now"), CallEnded(0), finished)
    message = message_of(deltas, frame(max_tokens=max_tokens))
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    checked(events_of(deltas, frame(max_tokens=max_tokens)))


def test_white_space_between_two_calls_is_no_block_and_in_a_text_it_stays() -> None:
    blank = (TextDelta("\n"), CallStarted(0, "now"), CallEnded(0), TextDelta("\n\n"), Finished("tool_calls", USAGE))
    assert [block["type"] for block in message_of(blank)["content"]] == ["tool_use"]
    text = (TextDelta(" \n"), TextDelta("Hi"), TextDelta("  \n"), Finished("stop", USAGE))
    assert message_of(text)["content"] == [{"type": "text", "text": " \nHi  \n"}]


def test_a_call_that_was_cut_has_what_is_whole_of_its_arguments() -> None:
    deltas = (CallStarted(0, "f"), ArgumentsDelta(0, '{"city": "Oslo", "day'), Finished("length", USAGE))
    assert message_of(deltas)["content"][0]["input"] == {"city": "Oslo"}
    checked(events_of(deltas))


def test_usage_is_whole_at_the_end_and_the_prompts_at_the_start() -> None:
    start, *_, last, _ = events_of(HELLO)
    assert start["message"]["usage"]["input_tokens"] == 11
    assert last["usage"]["input_tokens"] == 11
    assert last["usage"]["output_tokens"] == 7


def test_context_edits_that_were_asked_for_are_told_to_be_none() -> None:
    assert message_of(HELLO, frame(edits=True))["context_management"] == {"applied_edits": []}
    assert "context_management" not in message_of(HELLO)
