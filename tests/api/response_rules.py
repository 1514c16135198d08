"""The rules of a Responses event stream, as a machine that every event must be able to move."""

from __future__ import annotations

import json
from typing import Any

Json = Any

PARTS = {
    "message": ("content_part", "content_index", "output_text"),
    "reasoning": ("content_part", "content_index", "reasoning_text"),
    "summary": ("reasoning_summary_part", "summary_index", "reasoning_summary_text"),
}
CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}


def read_events(raw: str) -> list[Json]:
    """The events of a raw stream; each is named by its own type, and nothing else stands in it but comments."""
    events = []
    for block in raw.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name, data = lines
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}", block
        events.append(event)
    return events


class ResponseMachine:
    """Takes a stream's events in order; `over` is how it ended."""

    def __init__(self) -> None:
        self.over: str | None = None
        self.output: list[Json] = []
        self._next = 0
        self._identity: Json = None
        self._begun = 0
        self._item: Json = None
        self._part: str | None = None  # of the open item: its text so far
        self._pieces = ""
        self._told_done = False
        self._part_over = False

    def take(self, event: Json) -> None:
        assert self.over is None, f"{event['type']} after {self.over}"
        assert event["sequence_number"] == self._next, event
        self._next += 1
        kind = event["type"]
        if kind == "error":
            assert {"code", "message", "param"} <= set(event)
        elif "response" in event:
            self._lifecycle(kind, event["response"])
        else:
            self._in_item(kind, event)

    def _lifecycle(self, kind: str, response: Json) -> None:
        identity = (response["id"], response["created_at"], response["model"], response["object"])
        assert self._identity in (None, identity)
        self._identity = identity
        status = kind.removeprefix("response.")
        if self._begun < 2:
            assert kind == ("response.created", "response.in_progress")[self._begun]
            assert (response["status"], response["output"], response["usage"]) == ("in_progress", [], None)
            self._begun += 1
            return
        assert status in ("completed", "incomplete", "failed"), kind
        assert response["status"] == status
        self.over = status
        if status == "failed":
            assert response["error"]["message"]
            return
        assert self._item is None, "an item was left open"
        assert response["output"] == self.output
        assert (response["incomplete_details"] is None) == (status == "completed")
        usage = response["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]

    def _in_item(self, kind: str, event: Json) -> None:
        assert self._begun == 2, f"{kind} before the response began"
        assert event["output_index"] == len(self.output), event
        if kind == "response.output_item.added":
            assert self._item is None, "two items are open"
            self._item, self._part, self._pieces, self._told_done = event["item"], None, "", False
            self._part_over = False
            assert self._item["id"]
            return
        assert self._item is not None, f"{kind} of no item"
        if kind == "response.output_item.done":
            self._done(event["item"])
            return
        assert event["item_id"] == self._item["id"]
        if self._item["type"] in CALLS:
            self._of_call(kind, event)
        else:
            self._of_text(kind, event)

    def _of_call(self, kind: str, event: Json) -> None:
        stem, key = CALLS[self._item["type"]]
        assert not self._told_done
        if kind == f"response.{stem}.delta":
            assert event["delta"]
            self._pieces += event["delta"]
        else:
            assert kind == f"response.{stem}.done", kind
            assert event[key] == self._pieces
            self._told_done = True

    def _of_text(self, kind: str, event: Json) -> None:
        part, index, text = PARTS["summary" if "summary_index" in event else self._item["type"]]
        assert event[index] == 0
        assert not self._part_over
        if kind == f"response.{part}.added":
            assert self._part is None
            assert event["part"]["text"] == ""
            self._part = text
        elif kind == f"response.{text}.delta":
            assert self._part == text
            assert not self._told_done
            self._pieces += event["delta"]
        elif kind == f"response.{text}.done":
            assert event["text"] == self._pieces
            self._told_done = True
        else:
            assert kind == f"response.{part}.done", kind
            assert self._told_done
            assert event["part"]["text"] == self._pieces
            self._part_over = True

    def _done(self, item: Json) -> None:
        assert item["id"] == self._item["id"]
        assert item["type"] == self._item["type"]
        if item["type"] in CALLS:
            assert (item["call_id"], item["name"]) == (self._item["call_id"], self._item["name"])
            assert item[CALLS[item["type"]][1]] == self._pieces
            assert self._told_done == (item["status"] == "completed")
        elif item["type"] != "local_shell_call":
            assert self._part_over, "its part was not ended"
            told = item.get("summary") or item["content"]
            assert [piece["text"] for piece in told] == [self._pieces]
        self.output.append(item)
        self._item = None


def check_stream(raw: str) -> list[Json]:
    """The events of a raw stream that keeps all the rules and has ended."""
    events = read_events(raw)
    machine = ResponseMachine()
    for event in events:
        machine.take(event)
    assert machine.over is not None, "the stream has no end"
    return events
