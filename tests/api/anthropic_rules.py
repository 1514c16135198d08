"""What a stream of Anthropic's Messages must be, as a state machine; and what a client puts together from one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ringleader.values import Json

STARTS: dict[str, dict[str, Json]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "input": {}, "caller": {"type": "direct"}},
}
DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}
# Of recorded answers, and `output_tokens_details` of the SDK's types.
FIRST_USAGE = {
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "output_tokens",
    "service_tier",
    "inference_geo",
}
LAST_USAGE = {
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
}
MESSAGE = {"model", "id", "type", "role", "content", "stop_reason", "stop_sequence", "stop_details", "usage"}
REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"}


class Rules:
    """Feed it every event in order; it asserts, and gathers the message."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.state = "before"
        self._open: dict[str, Any] | None = None
        self._json = ""
        self._signed = False

    def take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert self.state != "stopped", f"{kind} after the end"
        if kind == "ping":
            assert self.state != "before"
            return
        assert (kind == "message_start") == (self.state == "before"), kind
        assert (kind == "message_stop") == (self.state == "ended"), kind
        getattr(self, f"_{kind}")(event)

    def _message_start(self, event: dict[str, Any]) -> None:
        assert set(event) == {"type", "message"}
        message = event["message"]
        assert set(message) == MESSAGE
        assert set(message["usage"]) == FIRST_USAGE
        assert (message["type"], message["role"], message["content"]) == ("message", "assistant", [])
        assert message["id"].startswith("msg_")
        assert message["stop_reason"] is message["stop_sequence"] is None
        self.message, self.state = {**message, "content": []}, "open"

    def _content_block_start(self, event: dict[str, Any]) -> None:
        assert set(event) == {"type", "index", "content_block"}
        assert self._open is None
        assert event["index"] == len(self.message["content"])
        block = event["content_block"]
        start = STARTS[block["type"]]
        assert {key: block[key] for key in start} == start
        if block["type"] == "tool_use":
            assert set(block) == {*start, "id", "name"}
            assert block["id"].startswith("toolu_")
            assert block["name"]
        else:
            assert set(block) == set(start)
        self._open, self._json, self._signed = dict(block), "", False
        self.message["content"].append(self._open)

    def _content_block_delta(self, event: dict[str, Any]) -> None:
        assert set(event) == {"type", "index", "delta"}
        assert self._open is not None
        assert event["index"] == len(self.message["content"]) - 1
        key = DELTAS[self._open["type"]][event["delta"]["type"]]
        assert set(event["delta"]) == {"type", key}
        assert not self._signed, "a signature ends its block"
        text = event["delta"][key]
        if key == "partial_json":
            self._json += text
        else:
            assert text
            self._open[key] += text
        self._signed = key == "signature"

    def _content_block_stop(self, event: dict[str, Any]) -> None:
        assert event == {"type": "content_block_stop", "index": len(self.message["content"]) - 1}
        assert self._open is not None
        if self._open["type"] == "thinking":
            assert self._signed
        elif self._open["type"] == "text":
            assert self._open["text"].strip(), "a blank text block"
        else:
            self._open["json"] = self._json
        self._open = None

    def _message_delta(self, event: dict[str, Any]) -> None:
        assert set(event) - {"context_management"} == {"type", "delta", "usage"}
        assert self._open is None
        assert set(event["delta"]) == {"stop_reason", "stop_sequence", "stop_details"}
        assert set(event["usage"]) == LAST_USAGE
        reason = event["delta"]["stop_reason"]
        assert reason in REASONS
        assert (event["delta"]["stop_sequence"] is not None) == (reason == "stop_sequence")
        for block in self.message["content"]:
            text = block.pop("json", None)
            if text is not None:
                block["input"] = _input(text, cut=reason in ("max_tokens", "model_context_window_exceeded"))
        if reason == "tool_use":
            assert any(block["type"] == "tool_use" for block in self.message["content"])
        self.message |= event["delta"]
        self.message["usage"] = {**self.message["usage"], **event["usage"]}
        self.state = "ended"

    def _message_stop(self, event: dict[str, Any]) -> None:
        assert event == {"type": "message_stop"}
        self.state = "stopped"


def _input(text: str, *, cut: bool) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        assert cut, f"arguments that are no JSON: {text}"
        return None
    assert isinstance(found, dict)
    return found


def read_events(text: str) -> list[dict[str, Any]]:
    """The events of a stream's text; name and type must agree."""
    events = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        name, data = lines
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def checked(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The message that a whole stream of events adds up to."""
    rules = Rules()
    for event in events:
        rules.take(event)
    assert rules.state == "stopped"
    return rules.message
