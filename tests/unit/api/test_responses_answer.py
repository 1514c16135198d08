"""Deltas to the events of a Responses stream: whatever comes, the rules hold, and whole and stream say the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.api.fault_table import Fault
from ringleader.api.responses_answer import ResponseEvents
from ringleader.api.responses_body import ResponseFrame
from ringleader.api.responses_read import read_response
from ringleader.api.sealed import unseal
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)
from tests.api.response_rules import ResponseMachine
from tests.api.scripted import MODEL, USAGE

TOOLS: list[Any] = [
    {"type": "function", "name": "now"},
    {"type": "custom", "name": "patch"},
    {"type": "local_shell"},
]


def events_of(**fields: Any) -> ResponseEvents:
    asked = read_response({"model": MODEL, "input": "hi", "tools": TOOLS, **fields})
    return ResponseEvents(ResponseFrame("resp_1", 1, MODEL, asked, lambda token: b"x"), lambda: 2.0)


def told(deltas: list[Delta], **fields: Any) -> list[Any]:
    """All events, checked by the machine."""
    events = events_of(**fields)
    found = [*events.begin(), *(event for delta in deltas for event in events.of(0, delta))]
    machine = ResponseMachine()
    for event in found:
        machine.take(event)
    return found


def types(events: list[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


TEXTS = st.text(max_size=5).map(TextDelta) | st.just(TextDelta("", logprobs=(TokenLogprob(1, -0.5),)))
THOUGHTS = st.text(max_size=5).map(ReasoningDelta)


@st.composite
def calls(draw: st.DrawFn) -> list[Delta]:
    name = draw(st.sampled_from(["now", "patch", "local_shell"]))
    if name == "patch":
        pieces = draw(st.lists(st.text(max_size=4), max_size=3))
    elif name == "now":
        pieces = draw(st.sampled_from([[], ["{", "}"], ['{"a": ', "", "1}"]]))
    else:
        pieces = ['{"command": [', '"ls"]}']
    return [CallStarted(0, name), *(ArgumentsDelta(0, piece) for piece in pieces), CallEnded(0)]


@st.composite
def answers(draw: st.DrawFn) -> list[Delta]:
    parts = draw(st.lists(TEXTS.map(lambda d: [d]) | THOUGHTS.map(lambda d: [d]) | calls(), max_size=6))
    deltas = [delta for part in parts for delta in part]
    if draw(st.booleans()):
        return [*deltas[: draw(st.integers(0, len(deltas)))], Finished("length", USAGE)]
    return [*deltas, Finished("stop", USAGE)]


@settings(max_examples=300, deadline=None)
@given(answers(), st.sampled_from([None, "auto"]))
def test_whatever_comes_keeps_the_rules_and_a_whole_answer_says_the_same(
    deltas: list[Delta], summary: str | None
) -> None:
    fields = {"reasoning": {"summary": summary}, "include": ["reasoning.encrypted_content"]}
    streamed = told(deltas, **fields)[-1]["response"]
    events = events_of(**fields)
    for delta in deltas:
        events.add(0, delta)
    assert events.complete
    assert without_ids(events.final) == without_ids(streamed)


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_ids(each) for key, each in value.items() if key not in ("id", "call_id")}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(answers(), st.integers(0, 8))
def test_an_answer_that_fails_anywhere_ends_as_failed(deltas: list[Delta], at: int) -> None:
    events = events_of()
    found = [*events.begin(), *(event for delta in deltas[:-1][:at] for event in events.of(0, delta))]
    found += events.failed(Fault("unavailable", 503, "gone", code="ring_lost"), "req_1")
    machine = ResponseMachine()
    for event in found:
        machine.take(event)
    assert machine.over == "failed"
    assert found[-2]["error"]["code"] == "ring_lost"
    assert found[-1]["response"]["error"] == {"code": "server_error", "message": "gone"}


def test_a_named_call_goes_through_the_events_that_openai_sends() -> None:
    deltas = [CallStarted(0, "now"), ArgumentsDelta(0, "{"), ArgumentsDelta(0, "}"), CallEnded(0)]
    events = told([*deltas, Finished("tool_calls", USAGE)])
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    item = events[-1]["response"]["output"][0]
    assert re.fullmatch("fc_[A-Za-z0-9]{24}", item["id"])
    assert re.fullmatch("call_[A-Za-z0-9]{24}", item["call_id"])
    assert (item["status"], item["arguments"]) == ("completed", "{}")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    events = told([CallStarted(0, "now"), CallEnded(0), Finished("tool_calls", USAGE)])
    assert [event.get("delta") for event in events if "delta" in event] == ["{}"]


def test_reasoning_text_and_its_sealed_form_come_as_they_are_asked_for() -> None:
    deltas: list[Delta] = [ReasoningDelta("I th"), ReasoningDelta("ink"), TextDelta("so"), Finished("stop", USAGE)]
    plain = told(deltas)[-1]["response"]["output"][0]
    assert plain["content"] == [{"type": "reasoning_text", "text": "I think"}]
    assert (plain["summary"], "encrypted_content" in plain) == ([], False)
    events = told(deltas, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"})
    item = events[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "I think"}]
    assert unseal(item["encrypted_content"]) == "I think"
    assert "reasoning_summary_text.delta" in types(events)


def test_a_call_that_was_cut_has_no_done_arguments_and_an_incomplete_status() -> None:
    events = told([CallStarted(0, "now"), ArgumentsDelta(0, '{"a"'), Finished("length", USAGE)], max_output_tokens=3)
    assert types(events)[-2:] == ["output_item.done", "incomplete"]
    assert "function_call_arguments.done" not in types(events)
    response = events[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


def test_the_clients_shell_is_called_with_an_action() -> None:
    arguments = '{"command": ["ls", "-l"], "timeout_ms": 5}'
    deltas = [CallStarted(0, "local_shell"), ArgumentsDelta(0, arguments), CallEnded(0), Finished("tool_calls", USAGE)]
    item = told(deltas)[-1]["response"]["output"][0]
    assert item["type"] == "local_shell_call"
    assert item["action"] == {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5}


@pytest.mark.parametrize("arguments", ["", "[1]", '{"command": ', "ls", "null"])
def test_a_shell_call_whose_arguments_are_no_object_has_an_empty_command(arguments: str) -> None:
    deltas = [CallStarted(0, "local_shell"), ArgumentsDelta(0, arguments), CallEnded(0), Finished("tool_calls", USAGE)]
    item = told(deltas)[-1]["response"]["output"][0]
    assert item["action"] == {"type": "exec", "command": [], "env": {}}


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_an_answer_without_a_word_is_an_empty_message_unless_it_was_cut(reason: Any) -> None:
    output = told([Finished(reason, USAGE)])[-1]["response"]["output"]
    assert [item["content"][0]["text"] for item in output] == ([""] if reason == "stop" else [])


def test_a_call_of_a_namespaces_tool_names_both() -> None:
    agents = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "now"}]}
    deltas = [CallStarted(0, "agents__now"), CallEnded(0), Finished("tool_calls", USAGE)]
    events = told(deltas, tools=[*TOOLS, agents])
    item = events[-1]["response"]["output"][0]
    assert (item["name"], item["namespace"]) == ("now", "agents")
