"""Deltas to chunks and completions, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringleader.api.openai_answer import Chunks, Completion, Envelope
from ringleader.api.openai_calls import CallForm
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Json,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)
from tests.api.scripted import CALLS, HELLO, USAGE

ENVELOPE = Envelope("chatcmpl-1", 1700000000, "m", "fp", logprobs=False, spell=lambda token: bytes([token]))
THOUGHT: tuple[Delta, ...] = (ReasoningDelta("hm"), Finished("length", USAGE))
EMPTY: tuple[Delta, ...] = (Finished("stop", USAGE),)
BOTH: tuple[Delta, ...] = (TextDelta("so: "), *CALLS[1:])
CUT: tuple[Delta, ...] = (CallStarted(0, "f"), ArgumentsDelta(0, '{"a'), Finished("length", USAGE))
ANSWERS = [HELLO, CALLS, THOUGHT, EMPTY, BOTH, CUT]


def chunks_of(
    deltas: tuple[Delta, ...], envelope: Envelope = ENVELOPE, *, include_usage: bool = False
) -> list[dict[str, Json]]:
    chunks = Chunks(envelope, include_usage=include_usage)
    made = [chunk for delta in deltas for chunk in chunks.of(0, delta)]
    assert chunks.complete == isinstance(deltas[-1], Finished)
    return made


def completion_of(deltas: tuple[Delta, ...], envelope: Envelope = ENVELOPE) -> dict[str, Json]:
    completion = Completion(envelope)
    for delta in deltas:
        assert not completion.complete
        completion.add(0, delta)
    assert completion.complete
    return completion.body()


def accumulated(chunks: list[dict[str, Json]]) -> dict[str, Any]:
    """What a careful client makes of chunks."""
    message: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    for chunk in chunks:
        for choice in chunk["choices"]:
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    (piece,) = value
                    if piece["index"] == len(calls):
                        calls.append({"id": piece["id"], "type": piece["type"], "function": dict(piece["function"])})
                    else:
                        assert set(piece) == {"index", "function"}
                        assert set(piece["function"]) == {"arguments"}
                        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
                elif value is not None and message.get(name) is not None:
                    message[name] += value
                else:
                    message[name] = value if value is not None else message.get(name)
    return {**message, **({"tool_calls": calls} if calls else {})}


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    calls = [{**call, "id": None} for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": calls}


@pytest.mark.parametrize("deltas", ANSWERS)
def test_the_stream_adds_up_to_the_completions_message(deltas: tuple[Delta, ...]) -> None:
    message = completion_of(deltas)["choices"][0]["message"]
    assert without_ids(accumulated(chunks_of(deltas))) == without_ids(message)


@pytest.mark.parametrize("deltas", ANSWERS)
def test_the_role_comes_once_and_first_and_the_finish_once_and_last(deltas: tuple[Delta, ...]) -> None:
    choices = [chunk["choices"][0] for chunk in chunks_of(deltas)]
    assert [index for index, choice in enumerate(choices) if "role" in choice["delta"]] == [0]
    finishes = [choice["finish_reason"] for choice in choices]
    assert finishes == [None] * (len(choices) - 1) + [deltas[-1].reason]  # type: ignore[union-attr] # it is Finished
    assert choices[-1]["delta"] == {}


@pytest.mark.parametrize("deltas", ANSWERS)
def test_all_chunks_are_of_one_answer(deltas: tuple[Delta, ...]) -> None:
    for chunk in chunks_of(deltas, include_usage=True):
        assert chunk["object"] == "chat.completion.chunk"
        assert (chunk["id"], chunk["created"], chunk["model"]) == ("chatcmpl-1", 1700000000, "m")


def test_a_call_that_comes_first_opens_the_message_with_null_content() -> None:
    (first,) = chunks_of((CallStarted(0, "f"),))
    delta = first["choices"][0]["delta"]
    (call,) = delta.pop("tool_calls")
    assert delta == {"role": "assistant", "content": None, "refusal": None}
    assert call.pop("id").startswith("call_")
    assert call == {"index": 0, "type": "function", "function": {"name": "f", "arguments": ""}}


def test_usage_is_null_on_all_chunks_but_an_extra_last_one_where_it_was_asked_for() -> None:
    chunks = chunks_of(HELLO, include_usage=True)
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 2,
            "accepted_prediction_tokens": 4,
            "rejected_prediction_tokens": 5,
        },
        "ringleader": {"passes": 4, "forced_tokens": 3, "opening_tokens": 0},
    }
    assert all("usage" not in chunk for chunk in chunks_of(HELLO))


def test_content_is_null_only_beside_calls_and_calls_are_absent_where_there_are_none() -> None:
    contents = [completion_of(deltas)["choices"][0]["message"] for deltas in ANSWERS]
    assert [message["content"] for message in contents] == ["Hello ☀", None, "", "", "so: ", None]
    assert ["tool_calls" in message for message in contents] == [False, True, False, False, True, True]


@pytest.mark.parametrize("thought", [(), (ReasoningDelta("hm"),)])
def test_content_is_null_where_a_call_was_wanted_and_cut_before_it_began(thought: tuple[Delta, ...]) -> None:
    deltas = (*thought, Finished("length", USAGE))
    envelope = replace(ENVELOPE, calls=CallForm(forced=True))
    chunks = Chunks(envelope, include_usage=False)
    streamed = accumulated([chunk for delta in deltas for chunk in chunks.of(0, delta)])
    message = completion_of(deltas, envelope)["choices"][0]["message"]
    assert message["content"] is None
    assert streamed == message
    assert completion_of(deltas)["choices"][0]["message"]["content"] == ""


def test_ids_of_calls_are_unique_and_made_of_letters_and_digits() -> None:
    ids = [call["id"] for _ in range(50) for call in completion_of(CALLS)["choices"][0]["message"]["tool_calls"]]
    assert len(set(ids)) == 100
    assert all(len(id_) == 29 and id_[5:].isalnum() and id_.isascii() for id_ in ids)


def test_empty_pieces_make_no_chunks() -> None:
    assert chunks_of((TextDelta(""), ReasoningDelta(""), ArgumentsDelta(0, ""))) == []


def test_arguments_are_an_empty_object_only_for_a_call_that_ended() -> None:
    message = completion_of((CallStarted(0, "f"), CallEnded(0), CallStarted(1, "g"), Finished("length", USAGE)))
    calls = message["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ["{}", ""]


def test_logprobs_are_null_unless_asked_for() -> None:
    deltas = (TextDelta("a", logprobs=(TokenLogprob(97, float("nan"), ((98, 0.1),)),)), Finished("stop", USAGE))
    assert completion_of(HELLO)["choices"][0]["logprobs"] is None
    asked = Envelope("i", 0, "m", "f", logprobs=True, spell=lambda token: bytes([token]))
    assert completion_of(HELLO, asked)["choices"][0]["logprobs"] == {"content": [], "refusal": None}
    top = [{"token": "b", "logprob": 0.0, "bytes": [98]}]
    assert completion_of(deltas, asked)["choices"][0]["logprobs"]["content"] == [
        {"token": "a", "logprob": -9999.0, "bytes": [97], "top_logprobs": top}
    ]


def test_choices_begin_in_their_order_whichever_speaks_first() -> None:
    chunks = Chunks(replace(ENVELOPE, choices=3), include_usage=False)
    told = [chunk["choices"][0] for n in (2, 0, 1) for delta in HELLO for chunk in chunks.of(n, delta)]
    begun = [choice["index"] for choice in told if "role" in choice["delta"]]
    assert begun == [0, 1, 2]
    for n in range(3):
        assert "".join(each["delta"].get("content") or "" for each in told if each["index"] == n) == "Hello ☀"


def test_choices_have_their_numbers_and_one_usage() -> None:
    envelope = replace(ENVELOPE, choices=2)
    chunks, completion = Chunks(envelope, include_usage=True), Completion(envelope)
    made: list[dict[str, Json]] = []
    for index, delta in [*((1, delta) for delta in CALLS), *((0, delta) for delta in HELLO)]:
        assert not chunks.complete
        made += chunks.of(index, delta)
        completion.add(index, delta)
    assert chunks.complete
    assert completion.complete
    *pieces, last = made
    for number, reason in ((0, "stop"), (1, "tool_calls")):
        own = [chunk["choices"][0] for chunk in pieces if chunk["choices"][0]["index"] == number]
        assert [choice["finish_reason"] for choice in own if choice["finish_reason"]] == [reason]
        assert [n for n, choice in enumerate(own) if "role" in choice["delta"]] == [0]
        whole = completion.body()["choices"][number]
        assert (whole["index"], whole["finish_reason"]) == (number, reason)
        streamed = accumulated([{"choices": [choice]} for choice in own])
        assert without_ids(streamed) == without_ids(whole["message"])
    assert last["choices"] == []
    assert last["usage"] == completion.body()["usage"]
    assert last["usage"]["prompt_tokens"] == USAGE.prompt_tokens
    assert last["usage"]["completion_tokens"] == 2 * USAGE.completion_tokens
    assert last["usage"]["total_tokens"] == USAGE.prompt_tokens + 2 * USAGE.completion_tokens
    assert last["usage"]["ringleader"] == {"passes": 8, "forced_tokens": 6, "opening_tokens": 0}


def test_a_call_of_a_custom_tool_has_an_input() -> None:
    envelope = replace(ENVELOPE, calls=CallForm(frozenset({"patch"})))
    deltas = (
        CallStarted(0, "now"),
        CallEnded(0),
        CallStarted(1, "patch"),
        ArgumentsDelta(1, 'a"'),
        ArgumentsDelta(1, "\n"),
        CallEnded(1),
        CallStarted(2, "patch"),
        CallEnded(2),
        Finished("tool_calls", USAGE),
    )
    calls = completion_of(deltas, envelope)["choices"][0]["message"]["tool_calls"]
    assert [call["type"] for call in calls] == ["function", "custom", "custom"]
    assert calls[0]["function"] == {"name": "now", "arguments": "{}"}
    assert [call["custom"] for call in calls[1:]] == [
        {"name": "patch", "input": 'a"\n'},
        {"name": "patch", "input": ""},
    ]
    pieces = [chunk["choices"][0]["delta"].get("tool_calls", [{}])[0] for chunk in chunks_of(deltas, envelope)]
    own = [piece for piece in pieces if piece.get("index") == 1]
    assert own[0].pop("id").startswith("call_")
    assert own == [
        {"index": 1, "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 1, "custom": {"input": 'a"'}},
        {"index": 1, "custom": {"input": "\n"}},
    ]


def test_a_client_of_functions_gets_a_function_call() -> None:
    envelope = replace(ENVELOPE, calls=CallForm(legacy=True, finish="function_call"))
    deltas = (CallStarted(0, "f"), ArgumentsDelta(0, '{"a": 1}'), CallEnded(0), Finished("tool_calls", USAGE))
    choice = completion_of(deltas, envelope)["choices"][0]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "function_call": {"name": "f", "arguments": '{"a": 1}'},
    }
    first, second, last = (chunk["choices"][0] for chunk in chunks_of(deltas, envelope))
    assert first["delta"]["function_call"] == {"name": "f", "arguments": ""}
    assert second["delta"] == {"function_call": {"arguments": '{"a": 1}'}}
    assert (last["delta"], last["finish_reason"]) == ({}, "function_call")
    (_, empty, _) = chunks_of((CallStarted(0, "f"), CallEnded(0), Finished("tool_calls", USAGE)), envelope)
    assert empty["choices"][0]["delta"] == {"function_call": {"arguments": "{}"}}


def test_the_finish_reason_of_calls_can_be_another_but_length_stays() -> None:
    envelope = replace(ENVELOPE, calls=CallForm(finish="stop"))
    assert completion_of(CALLS, envelope)["choices"][0]["finish_reason"] == "stop"
    assert completion_of(CUT, envelope)["choices"][0]["finish_reason"] == "length"
    assert chunks_of(CALLS, envelope)[-1]["choices"][0]["finish_reason"] == "stop"
