"""Deltas to Ollama's lines and objects, rule by rule."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from hypothesis import given

from ringleader.api.ollama_answer import Frame, Lines, Times, Whole, nothing_said, timestamp
from ringleader.api.ollama_shapes import GeneratedBody, OllamaChatBody
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
from tests.api.delta_strategies import answers
from tests.api.scripted import CALLS, HELLO, USAGE

LAST = {
    "model",
    "created_at",
    "done",
    "done_reason",
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
}


def frame(*, chat: bool = True, thinking: bool = True) -> Frame:
    ticks = count(300, 100)
    times = Times(arrived_ns=100, accepted_ns=200, now_ns=lambda: next(ticks), wall_s=lambda: 1700000000.5)
    return Frame("m:latest", chat, thinking, times, spell=lambda token: bytes([token]))


def lines_of(deltas: tuple[Delta, ...], made: Frame) -> list[dict[str, Any]]:
    lines = Lines(made)
    found = [*lines.begin()]
    for delta in deltas:
        assert not lines.complete
        found += lines.of(0, delta)
    assert lines.complete
    return found


def whole_of(deltas: tuple[Delta, ...], made: Frame) -> dict[str, Any]:
    whole = Whole(made)
    for delta in deltas:
        whole.add(0, delta)
    assert whole.complete
    return whole.body()


def added_up(lines: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """What a client makes of a stream's messages."""
    said: dict[str, Any] = {"text": "", "thinking": "", "calls": []}
    for line in lines:
        part = line["message"] if key == "content" else line
        said["text"] += part[key]
        said["thinking"] += part.get("thinking", "")
        said["calls"] += [
            (each["function"]["name"], each["function"]["arguments"]) for each in part.get("tool_calls", ())
        ]
    return said


@given(answers())
def test_lines_add_up_to_the_whole_answer_and_only_the_last_is_done(deltas: tuple[Delta, ...]) -> None:
    for chat, key in ((True, "content"), (False, "response")):
        lines = lines_of(deltas, frame(chat=chat))
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
        said = {"message"} if chat else {"response", "thinking", "tool_calls"}
        assert all(set(line) - {"logprobs"} <= said | LAST for line in lines)
        assert set(lines[-1]) == LAST | {"message" if chat else "response"}
        assert added_up(lines, key) == added_up([whole_of(deltas, frame(chat=chat))], key)


@given(answers())
def test_any_answers_lines_and_object_have_the_shapes_that_are_told(deltas: tuple[Delta, ...]) -> None:
    for chat, shape in ((True, OllamaChatBody), (False, GeneratedBody)):
        for line in (*lines_of(deltas, frame(chat=chat)), whole_of(deltas, frame(chat=chat))):
            shape.model_validate(line)


@given(answers())
def test_whole_calls_are_told_once_with_arguments_that_are_objects(deltas: tuple[Delta, ...]) -> None:
    said = added_up(lines_of(deltas, frame()), "content")
    ended = [delta.index for delta in deltas if isinstance(delta, CallEnded)]
    made = {
        number: "".join(delta.text for delta in deltas if isinstance(delta, ArgumentsDelta) and delta.index == number)
        for number in ended
    }
    assert [arguments for _, arguments in said["calls"]] == [json.loads(text or "{}") for text in made.values()]
    assert said["text"] == "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def test_an_answer_with_calls_is_as_ollama_writes_it() -> None:
    thought, weather, now, last = lines_of(CALLS, frame())
    assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    (call,) = weather["message"]["tool_calls"]
    assert call.pop("id").startswith("call_")
    assert call == {"function": {"index": 0, "name": "get_weather", "arguments": {"city": "Oslo"}}}
    assert now["message"]["tool_calls"][0]["function"] == {"index": 1, "name": "now", "arguments": {}}
    assert (last["done_reason"], last["message"]) == ("stop", {"role": "assistant", "content": ""})


def test_the_last_line_has_counts_and_durations_that_add_up() -> None:
    last = lines_of(HELLO, frame())[-1]
    assert last["created_at"] == "2023-11-14T22:13:20.500000Z"
    assert (last["prompt_eval_count"], last["eval_count"]) == (11, 7)
    parts = [last[key] for key in ("load_duration", "prompt_eval_duration", "eval_duration")]
    assert sum(parts) == last["total_duration"]
    assert all(part > 0 for part in parts)


def test_a_cut_answer_says_so_and_its_broken_call_is_not_told() -> None:
    cut = (CallStarted(0, "f"), ArgumentsDelta(0, '{"a'), Finished("length", USAGE))
    (last,) = lines_of(cut, frame())
    assert (last["done_reason"], last["message"]["content"]) == ("length", "")


def test_thinking_that_is_not_wanted_is_not_told() -> None:
    deltas = (ReasoningDelta("hm"), TextDelta("so"), Finished("stop", USAGE, warnings=("beware",)))
    body = whole_of(deltas, frame(thinking=False))
    assert body["message"] == {"role": "assistant", "content": "so"}
    assert body["warnings"] == ["beware"]


def test_logprobs_stand_beside_the_text() -> None:
    deltas = (TextDelta("A", logprobs=(TokenLogprob(65, -0.5, ((66, -1.0),)),)), Finished("stop", USAGE))
    body = whole_of(deltas, frame(chat=False))
    assert body["logprobs"] == [
        {
            "token": "A",
            "logprob": -0.5,
            "bytes": [65],
            "top_logprobs": [{"token": "B", "logprob": -1.0, "bytes": [66]}],
        }
    ]
    assert lines_of(deltas, frame(chat=False))[0]["logprobs"] == body["logprobs"]


def test_a_load_says_nothing_and_is_done() -> None:
    body = nothing_said(frame(chat=False), "load")
    assert (body["response"], body["done"], body["done_reason"]) == ("", True, "load")
    assert timestamp(0) == "1970-01-01T00:00:00.000000Z"
