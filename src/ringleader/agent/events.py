"""What happens in a step, for whoever watches: a terminal, a log, a program. `as_json` gives one line's object."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from ringleader.agent.completions import Call, Tokens
from ringleader.agent.outcome import Outcome
from ringleader.values import Json


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins, or goes on from a saved state (`turn` above 0)."""

    step: str
    role: str
    tier: int
    tools: tuple[str, ...]
    tool_choice: Json
    turn: int = 0


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The model is asked, with this choice."""

    turn: int
    tool_choice: Json


@dataclass(frozen=True, slots=True)
class TextCame:
    """More of the turn's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningCame:
    """More of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is whole. `tokens` None: the backend does not tell."""

    turn: int
    text: str
    calls: tuple[Call, ...]
    finish: str
    tokens: Tokens | None
    model: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A tool is about to run."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """What the model is told of a call. `failure` None: it went well."""

    id: str
    name: str
    text: str
    failure: str | None
    took_s: float


@dataclass(frozen=True, slots=True)
class ApprovalWanted:
    """These calls wait for somebody's yes."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should know, and that ends nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step is over, or (`outcome` None) it rests until somebody decides about calls."""

    step: str
    outcome: Outcome | None
    turns: int
    calls: int
    tokens: Tokens
    elapsed_s: float


Event = (
    StepStarted
    | TurnStarted
    | TextCame
    | ReasoningCame
    | TurnEnded
    | CallStarted
    | CallEnded
    | ApprovalWanted
    | Warned
    | StepEnded
)


def as_json(event: Event) -> dict[str, Json]:
    """The event as an object: its name in snake case, then its fields."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    return {"event": name, **dataclasses.asdict(event)}
