"""What a tool promises, and what a step may call: contracts, the registry of them, and the set that a step resolves to.

A contract checks arguments before the tool sees them and results before the model does. It never decides to call.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from ringleader.agent.arguments import (
    BadArguments,
    check,
    check_by_schema,
    check_schema,
    model_of,
    read_object,
    schema_of,
)
from ringleader.agent.characters import whole_text
from ringleader.agent.choice import normalize_tool_choice
from ringleader.agent.docstrings import read_docstring
from ringleader.agent.threads import in_thread
from ringleader.errors import ContractFault
from ringleader.values import Json

__all__ = [
    "Approval",
    "BadArguments",
    "Effect",
    "Registry",
    "Tool",
    "ToolContract",
    "ToolFault",
    "ToolResult",
    "build_tool_contracts",
    "normalize_tool_choice",
    "tool",
]

log = logging.getLogger(__name__)

Effect = Literal["read", "write", "network"]
Approval = Literal["never", "once", "always"]
Failure = Literal["bad_arguments", "failed", "timeout", "bad_result"]

TIMEOUT_S = 30.0  # a model waits for its tool, and a person for both
RESULT_CHARS_MAX = 32_000  # some 8,000 tokens: a quarter of a small context; the whole of it would push the task out
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what OpenAI and Anthropic both take
_WORDS = {"auto", "none", "required", "any"}  # a tool of such a name could not be chosen by it


class ToolFault(Exception):
    """Raised by a tool: it cannot do what it was asked. The text goes to the model as it is."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call came to. `text` is for the model; `value` is the same as JSON, for code (None on failure)."""

    text: str
    value: Json = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ToolContract:
    """One tool. `run` takes the checked arguments by name; a plain function runs in a thread, a coroutine on the loop.

    `arguments` is the pydantic model that checks them; without one `parameters` does, a JSON schema from elsewhere.
    `result` checks what `run` returns (None: any JSON value); a `ToolResult` goes to the model as it is. A step of
    tier n may use tools of tiers 0 to n.
    `approval`: "never" asks nobody, "once" asks before the first call of a run, "always" before each.
    """

    name: str
    description: str
    run: Callable[..., Any]
    tier: int = 0
    arguments: type[BaseModel] | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    result: TypeAdapter[Any] | None = None
    timeout_s: float = TIMEOUT_S
    effects: frozenset[Effect] = frozenset()
    approval: Approval = "never"
    result_chars_max: int = RESULT_CHARS_MAX

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _WORDS:
            wanted = f"1 to 64 letters, digits, _ and -, and none of {', '.join(sorted(_WORDS))}"
            raise ContractFault(f"a tool cannot be called {self.name!r}: use {wanted}")
        if not self.description.strip():
            raise ContractFault(f"tool {self.name} has no description; a model chooses by it (write a docstring)")
        if self.tier < 0 or self.timeout_s <= 0 or self.result_chars_max <= 0:
            raise ContractFault(f"tool {self.name}: tier must be at least 0, timeout_s and result_chars_max above 0")
        if not self.effects <= set(get_args(Effect)) or self.approval not in get_args(Approval):
            known = f"effects are {', '.join(get_args(Effect))}; approval is one of {', '.join(get_args(Approval))}"
            raise ContractFault(f"tool {self.name}: {known}")
        if self.arguments is not None:
            object.__setattr__(self, "parameters", schema_of(self.arguments))
        check_schema(self.parameters, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, unchecked: a tool is still of use to its own code."""
        return self.run(*args, **kwargs)

    @property
    def schema(self) -> dict[str, Json]:
        """The tool as OpenAI's Chat Completions takes it."""
        body = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": body}

    def read(self, arguments: str | Mapping[str, Json]) -> dict[str, Any]:
        """The checked arguments of a call.

        Raises:
            BadArguments: with a text for the model.
        """
        raw = read_object(arguments, self.name)
        if self.arguments is not None:
            return check(self.arguments, raw, self.name)
        check_by_schema(self.parameters, raw, self.name)
        return dict(raw)

    async def call(self, arguments: str | Mapping[str, Json]) -> ToolResult:
        """Calls the tool. Whatever goes wrong in it is a result that says so; only cancelling raises."""
        try:
            checked = self.read(arguments)
        except BadArguments as wrong:
            return ToolResult(str(wrong), failure="bad_arguments")
        try:
            async with asyncio.timeout(self.timeout_s) as deadline:
                value = await _run(self.run, checked)
        except TimeoutError as late:
            if deadline.expired():
                return ToolResult(f"{self.name} was given up after {self.timeout_s:g} s", failure="timeout")
            return self._failed(late)
        except ToolFault as told:
            return ToolResult(_shortened(whole_text(str(told)), self.result_chars_max), failure="failed")
        except Exception as error:  # noqa: BLE001 - a tool is foreign code, and its failure is the model's to hear of
            return self._failed(error)
        return self._checked(value)

    def _failed(self, error: Exception) -> ToolResult:
        log.warning("tool %s failed", self.name, exc_info=error)
        return ToolResult(whole_text(f"{self.name} failed: {_named(error)}"[:2000]), failure="failed")

    def _checked(self, value: Any) -> ToolResult:
        if isinstance(value, ToolResult):  # the tool has its own text for the model
            return replace(value, text=_shortened(whole_text(value.text), self.result_chars_max))
        checker: TypeAdapter[Any] = self.result or TypeAdapter(Any)
        try:
            if isinstance(value, Iterator):
                raise ValueError("an iterator has no end that could be known")
            plain = checker.dump_python(checker.validate_python(value, strict=True), mode="json")
            text = whole_text(_rendered(plain))
        except (ValidationError, ValueError, RecursionError) as wrong:  # ValueError: what no JSON can say
            log.warning("tool %s returned what it does not promise: %s", self.name, wrong)
            return ToolResult(f"{self.name} returned a value that it does not promise; not used", failure="bad_result")
        return ToolResult(_shortened(text, self.result_chars_max), plain)


Tool = ToolContract  # the short name


def tool(
    *,
    tier: int,
    name: str | None = None,
    effects: Iterable[Effect] = (),
    approval: Approval | None = None,
    timeout_s: float = TIMEOUT_S,
    result_chars_max: int = RESULT_CHARS_MAX,
) -> Callable[[Callable[..., Any]], ToolContract]:
    """Makes a contract of a typed function (plain or async) with a docstring, which is what the model reads.

    A tool with the effect "write" asks for approval before each call unless `approval` says otherwise.

    Raises:
        ContractFault: there is no docstring, a type is missing, or the docstring describes what is not there.
    """
    touched = frozenset(effects)

    def contract(function: Callable[..., Any]) -> ToolContract:
        called = name or function.__name__
        documented = read_docstring(function.__doc__ or "")
        model, result = model_of(function, called, documented)
        return ToolContract(
            name=called,
            description=documented.text,
            run=function,
            tier=tier,
            arguments=model,
            result=result,
            timeout_s=timeout_s,
            effects=touched,
            approval=approval or ("always" if "write" in touched else "never"),
            result_chars_max=result_chars_max,
        )

    return contract


class Registry:
    """Tools by their names, in the order in which they were added."""

    def __init__(self, tools: Iterable[ToolContract] = ()) -> None:
        self._tools: dict[str, ToolContract] = {}
        for each in tools:
            self.add(each)

    def add(self, each: ToolContract) -> None:
        """Raises ContractFault when another tool has the name."""
        if each.name in self._tools:
            raise ContractFault(f"there are two tools named {each.name}; give one another name")
        self._tools[each.name] = each

    def __getitem__(self, name: str) -> ToolContract:
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[ToolContract]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)


def build_tool_contracts(
    tier: int, requested_tools: Iterable[str] | None, tool_choice: Json = "auto", *, registry: Registry | None = None
) -> tuple[list[dict[str, Json]], list[ToolContract], Json]:
    """What a step of `tier` may call: (OpenAI's schemas, the tools in the same order, the choice on the wire).

    `requested_tools` is an allowlist (None: every tool up to the tier; empty: none). A requested tool above the tier is
    left out and logged. The choice is checked against exactly what is left. `registry` None means the built-in tools
    that need no settings.

    Raises:
        ContractFault: (a ValueError) nobody has a requested name, or the choice forces what is not in the set.
    """
    if registry is None:
        from ringleader.agent.tools import builtin_tools  # late: those modules stand on this one

        registry = builtin_tools()
    requested = _requested(requested_tools, registry)
    bound = [registry[name] for name in requested if registry[name].tier <= tier]
    above = {name: registry[name].tier for name in requested if registry[name].tier > tier}
    if requested_tools is not None and above:
        log.warning("left out of a step of tier %d: %s", tier, _with_tiers(above))
    try:
        choice = normalize_tool_choice(tool_choice, (each.name for each in bound))
    except ContractFault as fault:
        why = f" Tools of a higher tier than the step's {tier}: {_with_tiers(above)}" if above else ""
        stop = "" if not above or str(fault).endswith((".", "?")) else "."
        raise ContractFault(f"{fault}{stop}{why}", param="tool_choice", code=fault.code) from fault
    return [each.schema for each in bound], bound, choice


def _requested(names: Iterable[str] | None, registry: Registry) -> tuple[str, ...]:
    if names is None:
        return registry.names
    if isinstance(names, str):
        raise ContractFault(f"requested tools must be a list of names, not the text {names!r}", param="tools")
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in registry:
            near = difflib.get_close_matches(str(name), registry.names, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            have = ", ".join(registry.names) or "none"
            raise ContractFault(f"no tool is named {name!r}; there are: {have}.{hint}", param="tools")
    return wanted


def _with_tiers(tiers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} (tier {tier})" for name, tier in tiers.items())


def _named(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - foreign code again: an error that cannot even say itself
        return type(error).__name__


async def _run(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        returned = await in_thread(function, arguments)
        return await returned if inspect.isawaitable(returned) else returned
    except SystemExit as left:  # sys.exit in a tool ends the tool, not the agent
        raise RuntimeError(f"it ended with {left!r}") from left
    except asyncio.CancelledError as left:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("something in it was cancelled") from left  # nobody has cancelled the call itself


def _rendered(value: Json) -> str:
    if value is None:
        return "done"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: the first {limit:,} of {len(text):,} characters; ask for less at once]"
