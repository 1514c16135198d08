"""One model turn in one shape: the canonical dict that backends and providers give, read once into a checked value.

The dict is what travels: {"content", "reasoning", "tool_calls", "finish_reason", "usage", "model"}, its calls spelled
as Chat Completions spells them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ringleader.agent.backends.faults import BackendGarbled
from ringleader.agent.characters import whole_text
from ringleader.values import Json

CALLS_READ_MAX = 128  # of one turn: more is no answer but a model that has lost its way
FINISHES = ("stop", "length", "tool_calls", "content_filter")


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the model wrote it; `arguments` is its JSON text, perhaps not valid."""

    id: str
    name: str
    arguments: str

    def as_message(self) -> dict[str, Json]:
        """As it stands in an assistant's message."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a turn, or a whole step, has cost."""

    prompt: int = 0
    completion: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True, slots=True)
class Completion:
    """One turn of the model. `tokens` is None where the backend does not tell.

    `made` are calls that a delegated provider has made itself: told of, never run again, not part of the history.
    """

    content: str
    calls: tuple[Call, ...] = ()
    finish: Literal["stop", "length", "tool_calls", "content_filter"] = "stop"
    tokens: Tokens | None = None
    reasoning: str = ""
    model: str = ""
    made: tuple[Call, ...] = ()

    def as_message(self) -> dict[str, Json]:
        """The assistant's message that goes into the history."""
        message: dict[str, Json] = {"role": "assistant", "content": self.content or None}
        if self.reasoning:
            message["reasoning"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [call.as_message() for call in self.calls]
        return message

    def as_dict(self) -> dict[str, Json]:
        """The canonical dict."""
        return {
            "content": self.content or None,
            "reasoning": self.reasoning or None,
            "tool_calls": [call.as_message() for call in self.calls],
            "finish_reason": self.finish,
            "usage": None if self.tokens is None else _usage(self.tokens),
            "model": self.model or None,
        }


def read_completion(raw: Json, source: str) -> Completion:
    """The turn that a canonical dict tells; `source` is who gave it, for the message.

    Raises:
        BackendGarbled: it is no such dict; says where.
    """
    try:
        wire = _CompletionWire.model_validate(raw)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        message = f"{source} gave an answer that cannot be read: {place}: {first['msg']}"
        raise BackendGarbled(message) from wrong
    calls, made = _calls(wire.tool_calls), _calls(wire.calls_made)
    if len({call.id for call in calls}) < len(calls):  # results could not be told apart
        calls = tuple(Call(f"{call.id}_{n}", call.name, call.arguments) for n, call in enumerate(calls))
    tokens = None if wire.usage is None else Tokens(wire.usage.prompt_tokens, wire.usage.completion_tokens)
    return Completion(wire.content, calls, wire.finish_reason, tokens, wire.reasoning, wire.model, made)


def _calls(wires: list[_CallWire]) -> tuple[Call, ...]:
    return tuple(
        Call(call.id or f"call_{n}", call.function.name, call.function.arguments) for n, call in enumerate(wires)
    )


def _usage(tokens: Tokens) -> dict[str, int]:
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.total,
    }


def _no_null(value: Any) -> Any:
    return "" if value is None else _whole_text(value)


def _whole_text(value: Any) -> Any:
    return whole_text(value) if isinstance(value, str) else value


def _name_or_none(value: Any) -> Any:
    return _whole_text(value) if isinstance(value, str) else ""


def _count(value: Any) -> Any:
    return 0 if value is None else value


def _as_text(arguments: Any) -> Any:
    """Some servers send arguments as the object itself, or leave them out where there are none."""
    if arguments is None or arguments == "":
        return "{}"
    return _whole_text(json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else arguments)


def _known_finish(value: Any) -> Any:
    """Servers have words of their own for having stopped; only being cut is told apart from them."""
    return value if value in FINISHES else "stop"


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _FunctionWire(_Wire):
    name: Annotated[str, Field(min_length=1), BeforeValidator(_whole_text)]
    arguments: Annotated[str, BeforeValidator(_as_text)] = "{}"


class _CallWire(_Wire):
    id: Annotated[str, BeforeValidator(_no_null)] = ""
    function: _FunctionWire


class _UsageWire(_Wire):
    prompt_tokens: Annotated[int, Field(ge=0), BeforeValidator(_count)] = 0
    completion_tokens: Annotated[int, Field(ge=0), BeforeValidator(_count)] = 0


class _CompletionWire(_Wire):
    content: Annotated[str, BeforeValidator(_no_null)] = ""
    reasoning: Annotated[str, BeforeValidator(_no_null)] = ""
    tool_calls: Annotated[
        list[_CallWire], BeforeValidator(lambda value: value or []), Field(max_length=CALLS_READ_MAX)
    ] = []
    calls_made: list[_CallWire] = []
    finish_reason: Annotated[
        Literal["stop", "length", "tool_calls", "content_filter"], BeforeValidator(_known_finish)
    ] = "stop"
    usage: _UsageWire | None = None
    model: Annotated[str, BeforeValidator(_name_or_none)] = ""
