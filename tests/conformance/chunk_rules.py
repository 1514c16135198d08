"""The rules of a chat stream as one check over its raw chunks: what SDKs rely on without saying so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

REASONS = {"stop", "length", "tool_calls", "function_call"}
BROKEN = "\ufffd"  # what a character becomes that was split


@dataclass
class Choice:
    """One choice, as far as its chunks have come."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    finish: str | None = None
    chunks: int = 0


def check(lines: list[str], *, choices: int = 1, usage: bool = False) -> list[Choice]:
    """Hold a stream's `data:` lines to the rules; gives what they add up to."""
    assert lines[-1] == "[DONE]", "the stream ends with [DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1, "one answer, one envelope"
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    if usage:
        assert (chunks[-1]["choices"], bool(chunks[-1]["usage"])) == ([], True), "usage comes last and alone"
        assert all(chunk["usage"] is None for chunk in chunks[:-1])
        chunks = chunks[:-1]
    found = [Choice() for _ in range(choices)]
    for chunk in chunks:
        (choice,) = chunk["choices"]
        _add(found[choice["index"]], choice)
    for each in found:
        _check_whole(each)
    return found


def _add(so_far: Choice, choice: Any) -> None:
    delta = choice["delta"]
    assert so_far.finish is None, "nothing follows the finish reason"
    assert ("role" in delta) == (so_far.chunks == 0), "the role comes once, first"
    so_far.chunks += 1
    if choice["finish_reason"] is not None:
        assert delta == {}
        so_far.finish = choice["finish_reason"]
        return
    if delta.get("content"):
        so_far.content += delta["content"]
    so_far.reasoning += delta.get("reasoning_content") or ""
    calls = delta.get("tool_calls", [])
    assert isinstance(calls, list)
    for call in calls:
        _add_call(so_far, call)


def _add_call(so_far: Choice, call: Any) -> None:
    function = call["function"]
    assert isinstance(function["arguments"], str)
    if call["index"] == len(so_far.calls):
        assert set(call) == {"index", "id", "type", "function"}
        assert call["type"] == "function"
        assert isinstance(function["name"], str)
        assert function["name"]
        assert len(call["id"]) >= 9
        so_far.calls.append({"id": call["id"], "name": function["name"], "arguments": function["arguments"]})
        return
    assert call["index"] == len(so_far.calls) - 1, "calls come one after the other"
    assert set(call) == {"index", "function"}, "id, type and name come once"
    assert set(function) == {"arguments"}
    so_far.calls[-1]["arguments"] += function["arguments"]


def _check_whole(choice: Choice) -> None:
    assert choice.finish in REASONS, "each choice has a finish reason"
    assert BROKEN not in choice.content, "a character was split"
    assert len({call["id"] for call in choice.calls}) == len(choice.calls)
    if choice.finish != "length":
        assert bool(choice.calls) == (choice.finish == "tool_calls")
        for call in choice.calls:
            assert isinstance(json.loads(call["arguments"]), dict)
