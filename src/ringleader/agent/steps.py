"""A step: one task for one role, with the tools that it may use and how its first turn must go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ringleader.agent.characters import whole_text
from ringleader.errors import BadRequest
from ringleader.values import Json

PROMPT_CHARS_MAX = 4_000_000  # a million tokens: more fits no model, and is a mistake


@dataclass(frozen=True, slots=True)
class Step:
    """`tools` are the requested ones, an allowlist; None asks for every tool up to `tier`.

    `metadata["tool_choice"]`, in any spelling, is the choice of the first turn; what else stands in `metadata` is the
    caller's own and travels along. `instructions` is the system message; without them it names the role.
    """

    prompt: str
    name: str = "task"
    role: str = "assistant"
    tier: int = 0
    tools: tuple[str, ...] | None = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)
    instructions: str = ""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise BadRequest(f"step {self.name!r} has an empty prompt: say what is to be done", param="prompt")
        if len(self.prompt) > PROMPT_CHARS_MAX:
            raise BadRequest(
                f"the prompt of step {self.name!r} has over {PROMPT_CHARS_MAX:,} characters", param="prompt"
            )
        for name in ("prompt", "name", "role", "instructions"):
            if whole_text(getattr(self, name)) != getattr(self, name):
                raise BadRequest(
                    f"the {name} of a step holds half a character (bytes that are no UTF-8?): no request can carry it",
                    param=name,
                )
        if self.tier < 0:
            raise BadRequest(f"step {self.name!r}: tier must be 0 or more, not {self.tier}", param="tier")

    @property
    def tool_choice(self) -> Json:
        """What the first turn must do, as it was written; "auto" where nothing was."""
        return self.metadata.get("tool_choice", "auto")

    @property
    def messages(self) -> tuple[Json, ...]:
        """The history before the first turn."""
        system = self.instructions or ("" if self.role == "assistant" else f"You are the {self.role}.")
        opening = ({"role": "system", "content": system},) if system else ()
        return (*opening, {"role": "user", "content": self.prompt})
