"""What the loop hears (past tense) and what it orders: its whole contact with the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.agent.completions import Call, Completion
from ringleader.agent.events import Event
from ringleader.values import Json

# ---------------------------------------------------------------- heard


@dataclass(frozen=True, slots=True)
class Started:
    """The step begins; or goes on, where its state was saved."""


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    completion: Completion


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The backend gave no turn; `message` says why, for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """`text` is for the model. `failure` is None, or the word for what went wrong."""

    id: str
    text: str
    failure: str | None = None
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decided:
    """Somebody has said yes or no to every call that waits; `reason` goes to the model with a no."""

    allowed: Mapping[str, bool]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody wants the step to end now."""


@dataclass(frozen=True, slots=True)
class TimeRanOut:
    """The wall time that the last order had left is over."""


Heard = Started | ModelAnswered | ModelFailed | CallFinished | Decided | CancelAsked | TimeRanOut

# ---------------------------------------------------------------- ordered


@dataclass(frozen=True, slots=True)
class AskModel:
    """Put a turn to the backend, with the step's tools."""

    messages: tuple[Json, ...]
    tool_choice: Json
    max_tokens: int


@dataclass(frozen=True, slots=True)
class RunCall:
    """Run a tool; all that are ordered together run at once."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Ask somebody about these calls, or rest until somebody is there."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Wake:
    """Say TimeRanOut after `after_s`, if the step still runs then; takes the place of an earlier order."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Abort:
    """End whatever runs for this step; nothing of it is heard any more."""


@dataclass(frozen=True, slots=True)
class Tell:
    event: Event


Order = AskModel | RunCall | AskApproval | Wake | Abort | Tell
