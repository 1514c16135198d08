"""How a step may end, and within which bounds it must."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ringleader.errors import BadRequest

OutcomeKind = Literal[
    "answered",  # the model gave its answer: the only good end
    "cut",  # its answer reached the bound on one turn's tokens, or the model's own
    "filtered",  # the provider withheld it
    "turns_max",
    "calls_max",
    "tokens_max",
    "wall_max",
    "repeated",  # the same call again and again
    "choice_ignored",  # the first turn did not do what the choice demanded
    "backend_failed",
    "cancelled",
]

# After these a saved state can go on, with wider bounds or another backend; the history is whole in each case.
RESUMABLE = {"cut", "turns_max", "calls_max", "tokens_max", "wall_max", "repeated", "backend_failed", "cancelled"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`text` is the model's last words; `message` says why it ended, for people. `code` is a fault's."""

    kind: OutcomeKind
    text: str
    message: str
    code: str = ""

    @property
    def ok(self) -> bool:
        return self.kind == "answered"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a step may use at most, all turns together. Reaching one ends it in order.

    `answer_tokens_max` is for each turn alone. `calls_alike_max`: so often may one call be made with the same
    arguments. Time spent waiting for a person's approval is not counted in `wall_s`.
    """

    turns_max: int = 12
    calls_max: int = 40
    tokens_max: int = 200_000
    wall_s: float = 900.0
    answer_tokens_max: int = 2048  # two minutes of a small model that runs on for ever; some that reason want more
    calls_alike_max: int = 3

    def __post_init__(self) -> None:
        for name in ("turns_max", "tokens_max", "wall_s", "answer_tokens_max", "calls_alike_max"):
            if not 0 < getattr(self, name) < math.inf:  # NaN is not, either
                raise BadRequest(f"{name} must be a number above 0, not {getattr(self, name)}", param=name)
        if self.calls_max < 0:
            raise BadRequest(f"calls_max must be 0 or more, not {self.calls_max}", param="calls_max")
