"""Several steps with roles: read from YAML, run one after another, each told what earlier ones have found.

A plan rests where a step rests, and its saved state goes on there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ringleader.agent.backends.contracts import Backend
from ringleader.agent.contracts import Registry, build_tool_contracts
from ringleader.agent.events import Event, StepEnded
from ringleader.agent.outcome import Bounds, Outcome
from ringleader.agent.plan_files import read_yaml
from ringleader.agent.runner import Approver, Keeper, StepRun
from ringleader.agent.state import LoopState, restore
from ringleader.agent.steps import Step
from ringleader.errors import BadRequest
from ringleader.values import Json

FILE_BYTES_MAX = 4 * 2**20
FAULTS_SHOWN_MAX = 4  # of one plan: a name that is written wrongly is two, what is there and what is missing
STEPS_MAX = 100
VERSION = 1


@dataclass(frozen=True, slots=True)
class Planned:
    """A step of a plan; `uses` names the earlier steps whose answers it is told, None all of them."""

    step: Step
    uses: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order, with names that differ. Raises BadRequest otherwise."""

    steps: tuple[Planned, ...]
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        before: list[str] = []
        for planned in self.steps:
            name = planned.step.name
            if name in before:
                raise BadRequest(f"two steps are named {name!r}; give one another name", param="steps")
            for used in planned.uses or ():
                if used not in before:
                    earlier = ", ".join(before) or "there is none"
                    raise BadRequest(f"step {name!r} uses {used!r}, which is no earlier step ({earlier})", param="uses")
            before.append(name)

    def check(self, registry: Registry | None) -> None:
        """Every step's tools and choice, before the first one costs anything.

        Raises:
            ContractFault: (a ValueError) a tool or a choice is wrong; the message names the step.
        """
        for planned in self.steps:
            step = planned.step
            try:
                build_tool_contracts(step.tier, step.tools, step.tool_choice, registry=registry)
            except BadRequest as fault:
                raise type(fault)(f"step {step.name!r}: {fault}", param=fault.param, code=fault.code) from fault


class PlanRun:
    """Runs a plan, or goes on with a saved one. It stops at the first step that gives no answer."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend | None,
        *,
        registry: Registry | None = None,
        approve: Approver | None = None,
        keep: Keeper | None = None,
        temperature: float | None = None,
        answers: Mapping[str, str] | None = None,
        current: LoopState | None = None,
    ) -> None:
        self.plan = plan
        self.answers = dict(answers or {})
        self._backend, self._registry, self._approve = backend, registry, approve
        self._keep, self._temperature = keep, temperature
        self._current = current
        self._run: StepRun | None = None

    async def events(self) -> AsyncGenerator[Event]:
        """What happens, step after step. Closing this early cancels the step that runs."""
        for planned in self.plan.steps:
            if planned.step.name in self.answers:
                continue
            self._run = run = self._begun(planned)
            async with aclosing(run.events()) as told:
                async for event in told:
                    yield event
            if run.outcome is None or not run.outcome.ok:
                return
            self.answers[planned.step.name] = run.outcome.text
            self._current = None
            self._kept(None)

    def cancel(self) -> None:
        """End the step that runs, in order."""
        if self._run is not None:
            self._run.cancel()

    @property
    def resting(self) -> bool:
        """Whether it waits for somebody's yes."""
        return self._run is not None and self._run.resting

    @property
    def outcome(self) -> Outcome | None:
        """How the last step that ran ended: the plan's own end."""
        return None if self._run is None else self._run.outcome

    @property
    def ending(self) -> StepEnded | None:
        """The last event of the step that ran last, however it was left; None before the first."""
        return None if self._run is None else self._run.ending

    def _begun(self, planned: Planned) -> StepRun:
        current = self._current
        return StepRun(
            current if current is not None and current.step.name == planned.step.name else self._told(planned),
            self._backend,
            registry=self._registry,
            bounds=self.plan.bounds,
            approve=self._approve,
            keep=None if self._keep is None else self._kept,
            temperature=self._temperature,
        )

    def _told(self, planned: Planned) -> Step:
        """The step with the answers of earlier ones before its prompt."""
        used = planned.uses if planned.uses is not None else tuple(self.answers)
        if not used:
            return planned.step
        found = "\n\n".join(f"<result step={name!r}>\n{self.answers[name]}\n</result>" for name in used)
        return dataclasses.replace(
            planned.step, prompt=f"Results of earlier steps:\n\n{found}\n\n{planned.step.prompt}"
        )

    def _kept(self, current: dict[str, Json] | None) -> None:
        if self._keep is not None:
            self._keep(
                {
                    "version": VERSION,
                    "plan": _PLAN.dump_python(self.plan, mode="json"),
                    "answers": self.answers,
                    "current": current,
                }
            )


_PLAN = TypeAdapter(Plan)


def restore_plan(saved: Json) -> tuple[Plan, dict[str, str], LoopState | None]:
    """The plan, the answers so far, and the step at which it stands: what `keep` was given.

    Raises:
        BadRequest: it is another program's, another version's, or damaged.
    """
    if not isinstance(saved, Mapping) or saved.get("version") != VERSION or "plan" not in saved:
        raise BadRequest("this is no saved state of an agent that this version can read")
    try:
        plan = _PLAN.validate_python(saved["plan"])
        answers = TypeAdapter(dict[str, str]).validate_python(saved.get("answers"))
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise BadRequest(f"the saved state is damaged: {_place(first['loc'])}: {first['msg']}") from wrong
    return plan, answers, restore(saved["current"]) if saved.get("current") else None


# ---------------------------------------------------------------- YAML


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)  # `tier: yes` is no 1


class _StepWire(_Wire):
    name: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    role: Annotated[str, Field(min_length=1)] = "assistant"
    tier: Annotated[int, Field(ge=0)] = 0
    tools: list[str] | None = []
    prompt: Annotated[str, Field(min_length=1)]
    tool_choice: Any = None
    metadata: dict[str, Any] = {}
    uses: list[str] | None = None


class _BoundsWire(_Wire):
    turns_max: int | None = None
    calls_max: int | None = None
    tokens_max: int | None = None
    wall_s: float | None = None
    answer_tokens_max: int | None = None
    calls_alike_max: int | None = None


class _PlanWire(_Wire):
    roles: dict[str, str] = {}
    bounds: _BoundsWire = _BoundsWire()
    steps: Annotated[list[_StepWire], Field(min_length=1, max_length=STEPS_MAX)]


def read_plan(file: Path) -> Plan:
    """The plan in a YAML (or JSON) file.

    Raises:
        BadRequest: it cannot be read, or a field is wrong; says which.
        ExtraMissing: PyYAML is not installed.
    """
    try:
        with file.open("rb") as opened:  # it may be a pipe, and one without an end
            raw = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}", param="--plan") from error
    if len(raw) > FILE_BYTES_MAX:
        raise BadRequest(f"{file} has over {FILE_BYTES_MAX} bytes; a plan is a page", param="--plan")
    try:
        return parse_plan(raw.decode("utf-8"), str(file))
    except UnicodeDecodeError as error:
        raise BadRequest(f"{file} is no text in UTF-8", param="--plan") from error


def parse_plan(text: str, source: str = "the plan") -> Plan:
    """As `read_plan`, of text."""
    read = read_yaml(text, source)
    if not isinstance(read, dict):
        what = "is empty" if read is None else f"holds {type(read).__name__} at its top"
        raise BadRequest(
            f"{source} {what}; a plan is a mapping with steps, and perhaps roles and bounds", param="--plan"
        )
    try:
        wire = _PlanWire.model_validate(read)
        given = {name: value for name, value in wire.bounds.model_dump().items() if value is not None}
        bounds = Bounds(**given)
    except ValidationError as wrong:
        faults = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in wrong.errors(include_url=False)]
        raise BadRequest(f"{source}: {'; '.join(faults[:FAULTS_SHOWN_MAX])}", param="--plan") from wrong
    except BadRequest as wrong:
        raise BadRequest(f"{source}: bounds.{wrong}", param="--plan") from wrong
    steps = tuple(_planned(each, number, wire.roles) for number, each in enumerate(wire.steps, 1))
    return Plan(steps, bounds)


def _planned(wire: _StepWire, number: int, roles: Mapping[str, str]) -> Planned:
    name = wire.name or f"step-{number}"
    metadata = dict(wire.metadata)
    if wire.tool_choice is not None:
        if metadata.get("tool_choice", wire.tool_choice) != wire.tool_choice:
            raise BadRequest(f"step {name!r} has two choices: tool_choice, and metadata.tool_choice", param="steps")
        metadata["tool_choice"] = wire.tool_choice
    if roles and wire.role not in roles and wire.role != "assistant":
        raise BadRequest(f"step {name!r} has the role {wire.role!r}; roles are: {', '.join(roles)}", param="steps")
    step = Step(
        wire.prompt,
        name=name,
        role=wire.role,
        tier=wire.tier,
        tools=None if wire.tools is None else tuple(wire.tools),
        metadata=metadata,
        instructions=roles.get(wire.role, "").strip(),
    )
    return Planned(step, None if wire.uses is None else tuple(wire.uses))


def _place(path: tuple[int | str, ...]) -> str:
    words = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(words).lstrip(".") or "it"
