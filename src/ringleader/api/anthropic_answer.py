"""Deltas to the events of Anthropic's Messages, and to one message, which is what its events add up to. Pure.

Laws: one block is open at a time and indices count up; a block is as its deltas are; no block of text is blank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from ringleader.api.anthropic_read import Shown
from ringleader.api.ids import new_id
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Json,
    ReasoningDelta,
    TextDelta,
    Usage,
)

# Clients send thinking back with what signed it, and refuse a block without. Nothing here checks it.
SIGNATURE = "cmluZ2xlYWRlcg=="
PING: Mapping[str, Json] = {"type": "ping"}


@dataclass(frozen=True, slots=True)
class Frame:
    """What an answer's events need besides its deltas. `max_tokens` are those that were asked for."""

    id: str
    model: str
    prompt_tokens: int
    max_tokens: int
    thinking: Shown
    edits: bool = False


@dataclass(slots=True)
class _Open:
    """The block that is open. `call` is the number of its call; `written`: it has arguments."""

    kind: str
    call: int = -1
    written: bool = False


class MessageEvents:
    """One answer's events. Feed it every delta in order."""

    def __init__(self, frame: Frame) -> None:
        self.complete = False
        self._frame = frame
        self._open: _Open | None = None
        self._index = -1
        self._blank = ""  # whitespace that begins a text: written once the text has a word

    def begin(self) -> Iterator[dict[str, Json]]:
        """The message as it is at its start."""
        frame = self._frame
        message: dict[str, Json] = {
            "model": frame.model,
            "id": frame.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": first_usage(frame.prompt_tokens),
        }
        yield {"type": "message_start", "message": message}

    def of(self, index: int, delta: Delta) -> Iterator[dict[str, Json]]:
        """The events that `delta` makes; perhaps none. There is one choice, so `index` is 0."""
        match delta:
            case ReasoningDelta(text=text):
                yield from self._thought(text)
            case TextDelta(text=text):
                yield from self._text(text)
            case CallStarted(index=number, name=name):
                caller = {"type": "direct"}
                tool = {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}, "caller": caller}
                yield from self._begin(tool, number)
                yield self._delta("input_json_delta", "partial_json", "")
            case ArgumentsDelta(text=text):
                if text and self._open is not None:
                    self._open.written = True
                    yield self._delta("input_json_delta", "partial_json", text)
            case CallEnded():
                if self._open is not None and not self._open.written:
                    yield self._delta("input_json_delta", "partial_json", "{}")
                yield from self._end()
            case Finished():
                yield from self._finish(delta)

    # ------------------------------------------------------------ blocks

    def _thought(self, text: str) -> Iterator[dict[str, Json]]:
        if self._frame.thinking == "hidden" or not text:
            return
        if self._open is None or self._open.kind != "thinking":
            yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
        if self._frame.thinking == "shown":
            yield self._delta("thinking_delta", "thinking", text)

    def _text(self, text: str) -> Iterator[dict[str, Json]]:
        if self._open is None or self._open.kind != "text":
            self._blank += text
            if not self._blank.strip():
                return
            text, self._blank = self._blank, ""
            yield from self._begin({"type": "text", "text": ""})
        if text:
            yield self._delta("text_delta", "text", text)

    def _begin(self, block: dict[str, Json], call: int = -1) -> Iterator[dict[str, Json]]:
        yield from self._end()
        self._index += 1
        self._open = _Open(block["type"], call)
        yield {"type": "content_block_start", "index": self._index, "content_block": block}
        if self._index == 0:
            yield dict(PING)

    def _end(self) -> Iterator[dict[str, Json]]:
        self._blank = ""
        if self._open is None:
            return
        if self._open.kind == "thinking":
            yield self._delta("signature_delta", "signature", SIGNATURE)
        self._open = None
        yield {"type": "content_block_stop", "index": self._index}

    def _delta(self, kind: str, key: str, text: str) -> dict[str, Json]:
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, key: text}}

    # ------------------------------------------------------------ the end

    def _finish(self, finished: Finished) -> Iterator[dict[str, Json]]:
        yield from self._end()
        self.complete = True
        ended: dict[str, Json] = {
            "type": "message_delta",
            "delta": {
                "stop_reason": self._stop_reason(finished),
                "stop_sequence": finished.stopped_by if finished.reason == "stop" else None,
                "stop_details": None,
            },
            "usage": last_usage(finished.usage),
        }
        if self._frame.edits:
            ended["context_management"] = {"applied_edits": []}
        yield ended
        yield {"type": "message_stop"}

    def _stop_reason(self, finished: Finished) -> str:
        if finished.reason == "tool_calls":
            return "tool_use"
        if finished.reason == "stop":
            return "end_turn" if finished.stopped_by is None else "stop_sequence"
        if finished.usage.completion_tokens < self._frame.max_tokens:  # it was cut, and not by the client's own limit
            return "model_context_window_exceeded"
        return "max_tokens"


def first_usage(prompt_tokens: int) -> dict[str, Json]:
    """The usage of a message that has just begun."""
    return {
        "input_tokens": prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 0,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


def last_usage(usage: Usage) -> dict[str, Json]:
    """The usage of one that is whole: what the first could not know is there again. Input is what was not cached."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


@dataclass(slots=True)
class _Whole:
    """The message, as far as its events have come."""

    message: dict[str, Json] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


class WholeMessage:
    """One answer's message: what a client puts together from the events. Feed it every delta, then take the `body`."""

    def __init__(self, frame: Frame) -> None:
        self._events = MessageEvents(frame)
        self._whole = _Whole()
        for event in self._events.begin():
            self._add(event)

    @property
    def complete(self) -> bool:
        """The answer has finished."""
        return self._events.complete

    def add(self, index: int, delta: Delta) -> None:
        """Take in one delta."""
        for event in self._events.of(index, delta):
            self._add(event)

    def body(self) -> dict[str, Json]:
        """The whole message, once it is `complete`."""
        return self._whole.message

    def _add(self, event: dict[str, Json]) -> None:
        message = self._whole.message
        match event["type"]:
            case "message_start":
                self._whole.message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
                self._whole.arguments = []
            case "content_block_delta":
                self._add_to(message["content"][-1], event["delta"])
            case "content_block_stop":
                if message["content"][-1]["type"] == "tool_use":
                    message["content"][-1]["input"] = _arguments("".join(self._whole.arguments))
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
                message |= {key: value for key, value in event.items() if key == "context_management"}

    def _add_to(self, block: dict[str, Json], delta: dict[str, Json]) -> None:
        match delta["type"]:
            case "text_delta":
                block["text"] += delta["text"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._whole.arguments.append(delta["partial_json"])


def _arguments(text: str) -> Json:
    """A call's arguments. Of one that was cut short: what is whole of them, as SDKs read such a stream."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        found = from_json(text, allow_partial=True)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
