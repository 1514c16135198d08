"""Deltas to chunks and completions, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.api.openai_answer import Chunks, Completion, Envelope
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


def chunks_of(deltas: tuple[Delta, ...], *, include_usage: bool = False) -> list[dict[str, Json]]:
    chunks = Chunks(ENVELOPE, include_usage=include_usage)
    return [chunk for delta in deltas for chunk in chunks.of(delta)]


def completion_of(deltas: tuple[Delta, ...], envelope: Envelope = ENVELOPE) -> dict[str, Json]:
    completion = Completion(envelope)
    for delta in deltas[:-1]:
        completion.add(delta)
    last = deltas[-1]
    assert isinstance(last, Finished)
    return completion.body(last)


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
        "completion_tokens_details": {"reasoning_tokens": 2},
        "ringleader": {"passes": 4, "forced_tokens": 3, "opening_tokens": 0},
    }
    assert all("usage" not in chunk for chunk in chunks_of(HELLO))


def test_content_is_null_only_beside_calls_and_calls_are_absent_where_there_are_none() -> None:
    contents = [completion_of(deltas)["choices"][0]["message"] for deltas in ANSWERS]
    assert [message["content"] for message in contents] == ["Hello ☀", None, "", "", "so: ", None]
    assert ["tool_calls" in message for message in contents] == [False, True, False, False, True, True]


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
