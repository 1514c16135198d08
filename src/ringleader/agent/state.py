"""Everything that a step's loop knows, as one immutable value, and as JSON that a later process can go on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ringleader.agent.completions import Call, Tokens
from ringleader.agent.outcome import Outcome
from ringleader.agent.steps import Step
from ringleader.errors import BadRequest
from ringleader.values import Json

VERSION = 1


@dataclass(frozen=True, slots=True)
class CallState:
    """One call of the current turn. It is over once it has a `result`; `failure` is the word for what went wrong.

    `standing`: "asked" waits for a person, "ready" may run, "running" was ordered, "done" has its result.
    """

    call: Call
    standing: Literal["asked", "ready", "running", "done"]
    note: str = ""
    result: str = ""
    failure: str | None = None

    def done(self, result: str, failure: str | None) -> CallState:
        return dataclasses.replace(self, standing="done", result=self.note + result, failure=failure)

    def as_message(self) -> dict[str, Json]:
        """The result as the model reads it."""
        message: dict[str, Json] = {"role": "tool", "tool_call_id": self.call.id, "content": self.result}
        return message | ({"is_error": True} if self.failure else {})


@dataclass(frozen=True, slots=True)
class LoopState:
    """`turn` counts the turns that were asked for, `choice` is the first one's, in the wire's form.

    `phase`: "new"; "asking" a model; "deciding" about calls, a person; "calling" tools; "ended". `used_s` is the wall
    time of earlier runs, `since` when this one began by the runner's clock (None: it stands still). `alike` counts
    equal calls by their fingerprint; `permitted` are the tools that were approved once and for all.
    """

    step: Step
    choice: Json
    messages: tuple[Json, ...]
    phase: Literal["new", "asking", "deciding", "calling", "ended"] = "new"
    turn: int = 0
    calls_made: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    used_s: float = 0.0
    since: float | None = None
    calls: tuple[CallState, ...] = ()
    alike: Mapping[str, int] = field(default_factory=dict)
    permitted: tuple[str, ...] = ()
    outcome: Outcome | None = None

    def elapsed_s(self, now: float) -> float:
        """Wall time so far, without the time in which it rested."""
        return self.used_s + (0.0 if self.since is None else max(0.0, now - self.since))

    def resting(self, now: float) -> LoopState:
        """The same with its clock stopped."""
        return dataclasses.replace(self, used_s=self.elapsed_s(now), since=None)

    @property
    def text(self) -> str:
        """The model's last words: its answer, if it gave one, and otherwise what it said on the way."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            return str(self.messages[-1].get("content") or "")
        spoken = (m["content"] for m in reversed(self.messages) if m["role"] == "assistant" and m.get("content"))
        return str(next(spoken, ""))


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _FunctionWire(_Wire):
    name: str
    arguments: str


class _CallWire(_Wire):
    id: str
    function: _FunctionWire


class _MessageWire(_Wire):
    """What the loop reads of its history."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None
    tool_calls: list[_CallWire] = []
    tool_call_id: str = ""


_ADAPTER = TypeAdapter(LoopState)
_HISTORY = TypeAdapter(Annotated[list[_MessageWire], Field(min_length=1)])


def save(state: LoopState, now: float) -> dict[str, Json]:
    """The state as JSON's own types."""
    saved: Json = _ADAPTER.dump_python(state.resting(now), mode="json")
    return {"version": VERSION, **saved}


def restore(saved: Json) -> LoopState:
    """The state that `save` gave.

    Raises:
        BadRequest: it is another program's, another version's, or damaged.
    """
    if not isinstance(saved, Mapping) or saved.get("version") != VERSION:
        raise BadRequest("this is no saved state of a step that this version can read")
    try:
        state = _ADAPTER.validate_python({name: value for name, value in saved.items() if name != "version"})
        _HISTORY.validate_python(list(state.messages))
        return state
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"the saved state is damaged: {place}: {first['msg']}") from wrong
