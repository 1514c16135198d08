"""Requests, tools and collected answers for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Json,
    Message,
    ModelId,
    ReasoningDelta,
    Sampling,
    TextDelta,
    Tool,
)

WEATHER = Tool(
    "get_weather",
    "The weather to come.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
            "unit": {"type": "string", "enum": ["c", "f"]},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
NOW = Tool("now", "The time.", {"type": "object", "properties": {}})
NOTE = Tool(
    "note", "Keep a note.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
)
QUESTION = (Message("user", "What is your name?"),)


def request(
    choice: Json = None,
    tools: tuple[Tool, ...] = (WEATHER, NOW, NOTE),
    messages: tuple[Message, ...] = QUESTION,
    *,
    parallel: bool = True,
    max_tokens: int | None = None,
    stop: tuple[str, ...] = (),
) -> ChatRequest:
    return ChatRequest(
        ModelId("m"),
        messages,
        Sampling(seed=1),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_tokens=max_tokens,
        stop=stop,
    )


@dataclass
class Collected:
    """Deltas put together as a client would; equal for equal answers, however they were cut."""

    text: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)  # name, arguments
    ended: list[int] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # kinds, repeats dropped
    ids: list[int] = field(default_factory=list, compare=False)


def collect(deltas: Iterable[Delta]) -> Collected:
    found = Collected()
    for delta in deltas:
        kind = type(delta).__name__
        if not found.order or found.order[-1] != kind:
            found.order.append(kind)
        if isinstance(delta, TextDelta):
            assert delta.text
            found.text += delta.text
        elif isinstance(delta, ReasoningDelta):
            assert delta.text
            found.reasoning += delta.text
        elif isinstance(delta, CallStarted):
            assert delta.index == len(found.calls)
            found.calls.append([delta.name, ""])
        elif isinstance(delta, ArgumentsDelta):
            assert delta.index == len(found.calls) - 1
            assert delta.text
            found.calls[-1][1] += delta.text
        else:
            assert isinstance(delta, CallEnded)
            found.ended.append(delta.index)
        found.ids += delta.tokens
    return found
