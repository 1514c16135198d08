"""Deltas to the lines of an Ollama answer, and to one object, which is what its lines add up to. Pure.

A call is told when it is whole, since its arguments are an object; one that was cut short is not told.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ringleader.api.ids import new_id
from ringleader.api.openai_answer import Spell, logprobs_body
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


@dataclass(frozen=True, slots=True)
class Times:
    """When the request came and when it was accepted, in nanoseconds of a clock that only runs forward."""

    arrived_ns: int
    accepted_ns: int
    now_ns: Callable[[], int]
    wall_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Frame:
    """What all objects of one answer share. `chat`: with messages; otherwise with bare text."""

    model: str
    chat: bool
    thinking: bool
    times: Times
    spell: Spell  # a token's bytes

    def around(self, said: dict[str, Json]) -> dict[str, Json]:
        """An object, not the last, with what is `said`."""
        return {"model": self.model, "created_at": timestamp(self.times.wall_s()), **said, "done": False}

    def said(self, text: str, **more: Json) -> dict[str, Json]:
        """The text, and what stands beside it."""
        if self.chat:
            return {"message": {"role": "assistant", "content": text, **more}}
        return {"response": text, **more}


@dataclass(slots=True)
class _Call:
    name: str
    pieces: list[str] = field(default_factory=list)


class Lines:
    """One answer's objects. Feed it every delta in order."""

    def __init__(self, frame: Frame) -> None:
        self.complete = False
        self._frame = frame
        self._calls: dict[int, _Call] = {}
        self._first_ns: int | None = None

    def begin(self) -> Iterator[dict[str, Json]]:
        """Nothing: the first object has something to say."""
        return iter(())

    def of(self, index: int, delta: Delta) -> Iterator[dict[str, Json]]:
        """The objects that `delta` makes; perhaps none. There is one choice, so `index` is 0."""
        if self._first_ns is None:
            self._first_ns = self._frame.times.now_ns()
        frame = self._frame
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                if text or logprobs:
                    yield frame.around({**frame.said(text), **self._logprobs(logprobs)})
            case ReasoningDelta(text=text):
                if text and frame.thinking:
                    yield frame.around(frame.said("", thinking=text))
            case CallStarted(index=number, name=name):
                self._calls[number] = _Call(name)
            case ArgumentsDelta(index=number, text=text):
                self._calls[number].pieces.append(text)
            case CallEnded(index=number):
                yield frame.around(frame.said("", tool_calls=[self._call(number)]))
            case Finished():
                self.complete = True
                yield self._last(delta)

    def _call(self, number: int) -> Json:
        call = self._calls[number]
        arguments = json.loads("".join(call.pieces) or "{}")
        return {"id": new_id("call_"), "function": {"index": number, "name": call.name, "arguments": arguments}}

    def _logprobs(self, logprobs: tuple[TokenLogprob, ...]) -> dict[str, Json]:
        return {"logprobs": logprobs_body(logprobs, self._frame.spell)["content"]} if logprobs else {}

    def _last(self, finished: Finished) -> dict[str, Json]:
        times, usage = self._frame.times, finished.usage
        now_ns, first_ns = times.now_ns(), self._first_ns or times.accepted_ns
        last = {
            **self._frame.around(self._frame.said("")),
            "done": True,
            "done_reason": "length" if finished.reason == "length" else "stop",
            "total_duration": now_ns - times.arrived_ns,
            "load_duration": times.accepted_ns - times.arrived_ns,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": first_ns - times.accepted_ns,
            "eval_count": usage.completion_tokens,
            "eval_duration": now_ns - first_ns,
        }
        return {**last, "warnings": list(finished.warnings)} if finished.warnings else last


class Whole:
    """One answer's object. Feed it every delta in order, then ask for the `body`."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._lines = Lines(frame)
        self._body: dict[str, Json] = {}
        self._text: list[str] = []
        self._more: dict[str, Json] = {}
        self._logprobs: list[Json] = []

    @property
    def complete(self) -> bool:
        """The answer has finished."""
        return self._lines.complete

    def add(self, index: int, delta: Delta) -> None:
        """Take in one delta."""
        for line in self._lines.of(index, delta):
            said = line["message"] if self._frame.chat else line
            self._text.append(said["content" if self._frame.chat else "response"])
            if "thinking" in said:
                self._more["thinking"] = self._more.get("thinking", "") + said["thinking"]
            if "tool_calls" in said:
                self._more["tool_calls"] = [*self._more.get("tool_calls", ()), *said["tool_calls"]]
            self._logprobs += line.get("logprobs", ())
            self._body = line

    def body(self) -> dict[str, Json]:
        """The whole object, once it is `complete`."""
        logprobs = {"logprobs": self._logprobs} if self._logprobs else {}
        return {**self._body, **self._frame.said("".join(self._text), **self._more), **logprobs}


def nothing_said(frame: Frame, reason: str) -> dict[str, Json]:
    """The answer to a request that asked for none."""
    return {**frame.around(frame.said("")), "done": True, "done_reason": reason}


def timestamp(unix_s: float) -> str:
    """A moment as Ollama writes it."""
    moment = datetime.datetime.fromtimestamp(unix_s, datetime.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
