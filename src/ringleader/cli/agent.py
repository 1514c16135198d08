"""`ringleader agent`: run a task or a plan with tools, go on with one that rests, list the tools."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.agent.backends.opening import BACKENDS, open_backend
from ringleader.agent.completions import Call
from ringleader.agent.delegated import provider_of_environment
from ringleader.agent.events import as_json as event_json
from ringleader.agent.outcome import RESUMABLE, Bounds, Outcome
from ringleader.agent.plans import Plan, Planned, PlanRun, read_plan, restore_plan
from ringleader.agent.runner import Approver
from ringleader.agent.state import LoopState
from ringleader.agent.steps import Step
from ringleader.agent.threads import in_thread
from ringleader.cli.agent_page import AgentPage, shown_call, tools_page
from ringleader.cli.agent_tools import (
    HostsOption,
    McpOption,
    PrivateOption,
    RootOption,
    ShellOption,
    ToolSources,
    check_added,
    check_tier,
)
from ringleader.cli.client import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NO_NODE, EXIT_USAGE, run
from ringleader.errors import BadRequest, CallerFault

EXIT_NO_ANSWER, EXIT_RESTING = 4, 5
STATE_BYTES_MAX = 64 * 2**20
OPTIONS = {
    "turns_max": "--max-turns",
    "calls_max": "--max-calls",
    "answer_tokens_max": "--max-tokens",
    "tokens_max": "--budget",
    "wall_s": "--timeout",
}
WIDENED_BY = {
    "cut": " --max-tokens N",
    "turns_max": " --max-turns N",
    "calls_max": " --max-calls N",
    "tokens_max": " --budget N",
    "wall_max": " --timeout SECONDS",
}

_DEFAULT = Bounds()

app = typer.Typer(
    help="Agents: tasks with tools, on a ring or on any of the large providers.\n\n"
    "Exit codes of run and resume: 0 answered; 1 the backend failed; 2 wrong usage; 3 nobody answers at the address; "
    "4 no answer within the bounds, or against the choice; 5 rests until calls are allowed; 130 interrupted.",
    no_args_is_help=True,
)

BackendOption = Annotated[str, typer.Option("--backend", help=f"Who answers: {', '.join(BACKENDS)}.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="The model, as the backend knows it.")]
UrlOption = Annotated[str | None, typer.Option("--url", help="The backend's address; default: its own.")]
ApproveOption = Annotated[bool, typer.Option("--approve", help="Allow every call that needs a yes.")]
DenyOption = Annotated[bool, typer.Option("--deny", help="Refuse every call that needs a yes.")]
StateOption = Annotated[Path | None, typer.Option("--state", help="Keep the state here, to go on from: agent resume.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print each event as one line of JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone, when it is whole.")]
TurnsOption = Annotated[
    int | None, typer.Option("--max-turns", help=f"Ask the model this often at most; default {_DEFAULT.turns_max}.")
]
CallsOption = Annotated[
    int | None, typer.Option("--max-calls", help=f"Run this many tool calls at most; default {_DEFAULT.calls_max}.")
]
AnswerOption = Annotated[
    int | None,
    typer.Option("--max-tokens", help=f"Tokens of one turn at most; default {_DEFAULT.answer_tokens_max:,}."),
]
BudgetOption = Annotated[
    int | None, typer.Option("--budget", help=f"Tokens of all turns at most; default {_DEFAULT.tokens_max:,}.")
]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", help=f"Seconds of each step at most; default {_DEFAULT.wall_s:g}.")
]
TemperatureOption = Annotated[float | None, typer.Option("--temperature", help="0 always takes the likeliest token.")]


@app.command("run")
def run_agent(
    task: Annotated[str | None, typer.Argument(help='What to do; "-" reads it from stdin.')] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A YAML file of steps and roles, in place of a task.")
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tools", help="Tools by name, with commas; default: all of the tier. '' is none."),
    ] = None,
    force: Annotated[
        str | None, typer.Option("--force", help="The tool that the first turn must call; or any, or none.")
    ] = None,
    tier: Annotated[int, typer.Option("--tier", help="Tools of this tier and below may be used.")] = 0,
    role: Annotated[str, typer.Option("--role", help="Who the model is told to be.")] = "assistant",
    backend: BackendOption = "ring",
    model: ModelOption = None,
    url: UrlOption = None,
    max_turns: TurnsOption = None,
    max_calls: CallsOption = None,
    max_tokens: AnswerOption = None,
    budget: BudgetOption = None,
    timeout: TimeoutOption = None,
    temperature: TemperatureOption = None,
    approve: ApproveOption = False,
    deny: DenyOption = False,
    state: StateOption = None,
    root: RootOption = None,
    allow_host: HostsOption = None,
    allow_private: PrivateOption = False,
    shell: ShellOption = None,
    mcp: McpOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Do a task, or the steps of a plan: the first turn calls what is forced, later ones are free."""

    def made() -> tuple[Plan, dict[str, str], LoopState | None]:
        if (task is None) == (plan is None):
            raise BadRequest("give a task, or --plan FILE, and not both")
        if plan is not None and (tools or force or tier or role != "assistant"):
            raise BadRequest("--tools, --force, --tier and --role belong to a task; a plan's steps have their own")
        return read_plan(plan) if plan is not None else _plan_of(task or "", tools, force, tier, role), {}, None

    bounds = bounds_given(max_turns, max_calls, max_tokens, budget, timeout)
    sources = ToolSources(root, allow_host or (), allow_private, shell, mcp)
    asked = Asked(backend, model, url, bounds, sources, temperature, approve, deny, state, as_json, quiet)
    raise typer.Exit(run(_run(made, asked)))


@app.command("resume")
def resume_agent(
    state: Annotated[Path, typer.Argument(help="What --state kept.")],
    backend: BackendOption = "ring",
    model: ModelOption = None,
    url: UrlOption = None,
    max_turns: TurnsOption = None,
    max_calls: CallsOption = None,
    max_tokens: AnswerOption = None,
    budget: BudgetOption = None,
    timeout: TimeoutOption = None,
    temperature: TemperatureOption = None,
    approve: ApproveOption = False,
    deny: DenyOption = False,
    root: RootOption = None,
    allow_host: HostsOption = None,
    allow_private: PrivateOption = False,
    shell: ShellOption = None,
    mcp: McpOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Go on where a run rests, was interrupted, or ended at a bound."""
    bounds = bounds_given(max_turns, max_calls, max_tokens, budget, timeout)
    sources = ToolSources(root, allow_host or (), allow_private, shell, mcp)
    asked = Asked(backend, model, url, bounds, sources, temperature, approve, deny, state, as_json, quiet)
    raise typer.Exit(run(_run(lambda: restore_plan(_read_state(state)), asked)))


@app.command("tools")
def list_tools(
    tier: Annotated[int | None, typer.Option("--tier", help="Those that a step of this tier may use.")] = None,
    root: RootOption = None,
    allow_host: HostsOption = None,
    allow_private: PrivateOption = False,
    shell: ShellOption = None,
    mcp: McpOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them with their schemas.")] = False,
) -> None:
    """List the tools: their tiers, what they touch, and whether they ask."""
    raise typer.Exit(run(_listed(ToolSources(root, allow_host or (), allow_private, shell, mcp), tier, as_json)))


async def _listed(sources: ToolSources, tier: int | None, as_json: bool) -> int:
    async with AsyncExitStack() as stack:
        try:
            registry = await sources.opened(stack)
            check_tier(tier or 0, registry, "--tier")
        except CallerFault as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_USAGE
        found = [tool for tool in registry if tier is None or tool.tier <= tier]
    if as_json:
        listed = [
            {
                "name": tool.name,
                "tier": tool.tier,
                "effects": sorted(tool.effects),
                "approval": tool.approval,
                "timeout_s": tool.timeout_s,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in found
        ]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        print(tools_page(found))
    return 0


def bounds_given(
    turns: int | None, calls: int | None, answer_tokens: int | None, tokens: int | None, wall_s: float | None
) -> dict[str, Any]:
    """The options by the names that Bounds has for them."""
    return {
        "turns_max": turns,
        "calls_max": calls,
        "answer_tokens_max": answer_tokens,
        "tokens_max": tokens,
        "wall_s": wall_s,
    }


def _plan_of(task: str, tools: list[str] | None, force: str | None, tier: int, role: str) -> Plan:
    names = None if tools is None else tuple(name.strip() for each in tools for name in each.split(",") if name.strip())
    metadata = {} if force is None else {"tool_choice": force}
    prompt = sys.stdin.read() if task == "-" else task
    return Plan((Planned(Step(prompt, role=role, tier=tier, tools=names, metadata=metadata)),))


@dataclass(frozen=True, slots=True)
class Asked:
    """What `run` and `resume` have in common: whom to ask, within which bounds, and what becomes of it."""

    backend: str
    model: str | None
    url: str | None
    bounds: Mapping[str, Any]  # those that were given, by their names in Bounds
    sources: ToolSources
    temperature: float | None
    approve: bool
    deny: bool
    state: Path | None
    as_json: bool
    quiet: bool


async def _run(made: Callable[[], tuple[Plan, dict[str, str], LoopState | None]], asked: Asked) -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(message)s")
    _end_in_order()
    async with AsyncExitStack() as stack:
        try:
            agent = await _prepared(*made(), asked, stack)
        except CallerFault as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_USAGE
        page = AgentPage(sys.stdout, sys.stderr, quiet=asked.quiet)
        try:
            return await _watched(agent, asked, page)
        except asyncio.CancelledError:  # ^C: the step has ended in order, and its state is kept
            return _interrupted(agent, asked, page)


def _end_in_order() -> None:
    """Being ended, or losing the terminal, is taken like ^C: what tools have started would outlive the run."""
    if threading.current_thread() is not threading.main_thread():  # no other hears signals
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            asyncio.get_running_loop().add_signal_handler(number, signal.raise_signal, signal.SIGINT)


async def _prepared(
    plan: Plan, answers: Mapping[str, str], current: LoopState | None, asked: Asked, stack: AsyncExitStack
) -> PlanRun:
    """Everything that can be wrong is found here, before anything costs anything."""
    if asked.approve and asked.deny:
        raise BadRequest("--approve and --deny contradict each other")
    if asked.as_json and asked.quiet:
        raise BadRequest("--json and --quiet contradict each other")
    if all(planned.step.name in answers for planned in plan.steps):
        raise BadRequest("every step of this run has its answer; there is nothing to go on with")
    if asked.temperature is not None and not 0 <= asked.temperature < math.inf:
        raise BadRequest(f"--temperature must be 0 or more, not {asked.temperature}", param="--temperature")
    plan = Plan(plan.steps, _widened(plan.bounds, asked.bounds))
    backend = None
    if provider_of_environment() is None:
        backend = open_backend(asked.backend, model=asked.model, url=asked.url)
        stack.push_async_callback(backend.close)
    keep = None if asked.state is None else _keeper(asked.state)
    registry = await asked.sources.opened(stack)  # servers are started: the last thing that may be in vain
    for planned in plan.steps:
        check_tier(planned.step.tier, registry, f"step {planned.step.name!r}")
        check_added(planned.step.tools or (), registry, f"step {planned.step.name!r}")
    plan.check(registry)
    return PlanRun(
        plan,
        backend,
        registry=registry,
        approve=_approver(asked),
        keep=keep,
        temperature=asked.temperature,
        answers=answers,
        current=current,
    )


def _widened(bounds: Bounds, given: Mapping[str, Any]) -> Bounds:
    fields = {name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}
    try:
        return Bounds(**fields | {name: value for name, value in given.items() if value is not None})
    except BadRequest as wrong:  # by the name that the person has written
        option = OPTIONS.get(wrong.param or "", "")
        raise BadRequest(f"{option}: {wrong}", param=option) from wrong


def _approver(asked: Asked) -> Approver | None:
    """Who is asked: the options, or the person at the terminal; without either, the run rests."""

    async def decided(calls: Sequence[Call]) -> dict[str, bool]:
        return {call.id: asked.approve for call in calls}

    async def by_person(calls: Sequence[Call]) -> dict[str, bool]:
        return {call.id: await in_thread(_ask, {"call": call}) for call in calls}

    if asked.approve or asked.deny:
        return decided
    return by_person if sys.stdin.isatty() and sys.stderr.isatty() and not asked.as_json else None


def _ask(call: Call) -> bool:
    print(f"  allow   {shown_call(call.name, call.arguments)}   [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _watched(agent: PlanRun, asked: Asked, page: AgentPage) -> int:
    async with aclosing(agent.events()) as told:
        async for event in told:
            if asked.as_json:
                print(json.dumps(event_json(event), ensure_ascii=False), flush=True)
            else:
                page.show(event)
    if not asked.as_json:
        page.finish(agent.outcome)
        _show_next(agent, asked)
    return EXIT_RESTING if agent.resting else exit_code_of(agent.outcome)


def _interrupted(agent: PlanRun, asked: Asked, page: AgentPage) -> int:
    """Says how far it came; nobody was told, since whoever listens was interrupted, too."""
    ending = agent.ending
    if asked.as_json:
        if ending is not None:
            print(json.dumps(event_json(ending), ensure_ascii=False), flush=True)
        return EXIT_INTERRUPTED
    print(file=sys.stderr)  # behind the terminal's ^C
    if ending is None:
        print("  end     stopped before the first turn", file=sys.stderr)
    else:
        page.show(ending)
    _show_next(agent, asked)
    return EXIT_INTERRUPTED


def _show_next(agent: PlanRun, asked: Asked) -> None:
    if next_line := what_next(agent, asked):
        print(f"  next    {next_line}", file=sys.stderr, flush=True)


def exit_code_of(outcome: Outcome | None) -> int:
    """What the shell gets."""
    if outcome is None or outcome.ok:
        return 0
    if outcome.kind == "backend_failed":
        return EXIT_NO_NODE if outcome.code == "node_unreachable" else EXIT_FAILED
    return EXIT_NO_ANSWER


def what_next(agent: PlanRun, asked: Asked) -> str:
    """What a person can do now; "" when it is done, or nothing would help."""
    if agent.resting:
        return f"allow the calls: {_again(asked, ' --approve')}"
    if agent.outcome is None or agent.outcome.kind not in RESUMABLE:
        return ""
    again = _again(asked, WIDENED_BY.get(agent.outcome.kind, ""))
    return f"go on: {again}" if again else "run again; with --state FILE it would go on from here"


def _again(asked: Asked, with_option: str) -> str:
    """The command that goes on, with the options that no state keeps; without a state, what to do instead."""
    if asked.state is None:
        return f"run again with{with_option}, or with --state FILE" if with_option else ""
    given = {
        "--backend": None if asked.backend == "ring" else asked.backend,
        "--model": asked.model,
        "--url": asked.url,
        "--temperature": None if asked.temperature is None else f"{asked.temperature:g}",
    }
    words = [word for option, value in given.items() if value is not None for word in (option, value)]
    command = shlex.join(["ringleader", "agent", "resume", str(asked.state)])
    return f"{command}{with_option} {shlex.join([*words, *asked.sources.words])}".rstrip()


def _keeper(file: Path) -> Callable[[dict[str, Any]], None]:
    """Writes the state beside `file` and then in its place, readable by its owner only: prompts may be private.

    Raises:
        BadRequest: nothing can be written there.
    """
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.touch(mode=0o600)
    except OSError as error:
        raise BadRequest(f"--state {file} cannot be written: {error.strerror}") from error

    def keep(saved: dict[str, Any]) -> None:
        try:
            beside.touch(mode=0o600)
            beside.write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")
            beside.replace(file)
        except OSError as error:  # what runs is worth more than its record
            print(f"  warning the state could not be kept: {error}", file=sys.stderr)

    return keep


def _read_state(file: Path) -> Any:
    try:
        if file.stat().st_size > STATE_BYTES_MAX:
            raise BadRequest(f"{file} has over {STATE_BYTES_MAX} bytes; it is no state of ours")
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{file} is no saved state: {error}") from error
