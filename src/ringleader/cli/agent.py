"""`ringleader agent`: run a task or a plan with tools, go on with one that rests, list the tools."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.agent.backends.opening import BACKENDS, open_backend
from ringleader.agent.completions import Call
from ringleader.agent.delegated import provider_of_environment
from ringleader.agent.events import as_json as event_json
from ringleader.agent.outcome import Bounds, Outcome
from ringleader.agent.plans import Plan, Planned, PlanRun, read_plan, restore_plan
from ringleader.agent.runner import Approver
from ringleader.agent.state import LoopState
from ringleader.agent.steps import Step
from ringleader.agent.tools import builtin_tools
from ringleader.cli.agent_page import AgentPage, shown_call, tools_page
from ringleader.cli.client import EXIT_FAILED, EXIT_NO_NODE, EXIT_USAGE, run
from ringleader.errors import BadRequest, CallerFault

EXIT_NO_ANSWER, EXIT_RESTING = 4, 5
STATE_BYTES_MAX = 64 * 2**20

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
TurnsOption = Annotated[int | None, typer.Option("--max-turns", help="Ask the model this often at most.")]
CallsOption = Annotated[int | None, typer.Option("--max-calls", help="Run this many tool calls at most.")]
AnswerOption = Annotated[int | None, typer.Option("--max-tokens", help="Tokens of one turn at most.")]
BudgetOption = Annotated[int | None, typer.Option("--budget", help="Tokens of all turns together at most.")]
TimeoutOption = Annotated[float | None, typer.Option("--timeout", help="Seconds of each step at most.")]
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
    as_json: JsonOption = False,
) -> None:
    """Do a task, or the steps of a plan: the first turn calls what is forced, later ones are free."""
    given = {
        "turns_max": max_turns,
        "calls_max": max_calls,
        "answer_tokens_max": max_tokens,
        "tokens_max": budget,
        "wall_s": timeout,
    }

    def made() -> PlanRun:
        if (task is None) == (plan is None):
            raise BadRequest("give a task, or --plan FILE, and not both")
        if plan is not None and (tools or force or tier or role != "assistant"):
            raise BadRequest("--tools, --force, --tier and --role belong to a task; a plan's steps have their own")
        steps = read_plan(plan) if plan is not None else _plan_of(task or "", tools, force, tier, role)
        return _prepared(
            Plan(steps.steps, _widened(steps.bounds, given)),
            (backend, model, url),
            (approve, deny, as_json),
            temperature=temperature,
            state=state,
        )

    raise typer.Exit(_run(made, as_json, state))


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
    as_json: JsonOption = False,
) -> None:
    """Go on where a run rests, was interrupted, or ended at a bound."""
    given = {
        "turns_max": max_turns,
        "calls_max": max_calls,
        "answer_tokens_max": max_tokens,
        "tokens_max": budget,
        "wall_s": timeout,
    }

    def made() -> PlanRun:
        plan, answers, current = restore_plan(_read_state(state))
        return _prepared(
            Plan(plan.steps, _widened(plan.bounds, given)),
            (backend, model, url),
            (approve, deny, as_json),
            temperature=temperature,
            state=state,
            answers=answers,
            current=current,
        )

    raise typer.Exit(_run(made, as_json, state))


@app.command("tools")
def list_tools(
    tier: Annotated[int | None, typer.Option("--tier", help="Those that a step of this tier may use.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them with their schemas.")] = False,
) -> None:
    """List the tools: their tiers, what they touch, and whether they ask."""
    found = [tool for tool in builtin_tools() if tier is None or tool.tier <= tier]
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


def _plan_of(task: str, tools: list[str] | None, force: str | None, tier: int, role: str) -> Plan:
    names = None if tools is None else tuple(name.strip() for each in tools for name in each.split(",") if name.strip())
    metadata = {} if force is None else {"tool_choice": force}
    prompt = sys.stdin.read() if task == "-" else task
    return Plan((Planned(Step(prompt, role=role, tier=tier, tools=names, metadata=metadata)),))


def _widened(bounds: Bounds, given: Mapping[str, Any]) -> Bounds:
    fields = {name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}
    return Bounds(**fields | {name: value for name, value in given.items() if value is not None})


def _prepared(
    plan: Plan,
    whom: tuple[str, str | None, str | None],
    decisions: tuple[bool, bool, bool],
    *,
    temperature: float | None,
    state: Path | None,
    answers: Mapping[str, str] | None = None,
    current: LoopState | None = None,
) -> PlanRun:
    """Everything that can be wrong is found here, before anything costs anything."""
    name, model, url = whom
    approve, deny, as_json = decisions
    if approve and deny:
        raise BadRequest("--approve and --deny contradict each other")
    registry = builtin_tools()
    plan.check(registry)
    delegated = provider_of_environment() is not None
    return PlanRun(
        plan,
        None if delegated else open_backend(name, model=model, url=url),
        registry=registry,
        approve=_approver(approve, deny, as_json),
        keep=None if state is None else _keeper(state),
        temperature=temperature,
        answers=answers,
        current=current,
    )


def _approver(approve: bool, deny: bool, as_json: bool) -> Approver | None:
    """Who is asked: the options, or the person at the terminal; without either, the run rests."""

    async def decided(calls: Sequence[Call]) -> dict[str, bool]:
        return {call.id: approve for call in calls}

    async def asked(calls: Sequence[Call]) -> dict[str, bool]:
        return {call.id: await asyncio.to_thread(_ask, call) for call in calls}

    if approve or deny:
        return decided
    return asked if sys.stdin.isatty() and sys.stderr.isatty() and not as_json else None


def _ask(call: Call) -> bool:
    print(f"  allow   {shown_call(call.name, call.arguments)}   [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run(made: Callable[[], PlanRun], as_json: bool, state: Path | None) -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        agent = made()
    except CallerFault as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return run(_watched(agent, as_json, state))


async def _watched(agent: PlanRun, as_json: bool, state: Path | None) -> int:
    page = AgentPage(sys.stdout, sys.stderr)
    async with aclosing(agent.events()) as told:
        async for event in told:
            if as_json:
                print(json.dumps(event_json(event), ensure_ascii=False), flush=True)
            else:
                page.show(event)
    if not as_json:
        page.finish(agent.outcome)
        _say_what_next(agent, state)
    return EXIT_RESTING if agent.resting else exit_code_of(agent.outcome)


def exit_code_of(outcome: Outcome | None) -> int:
    """What the shell gets."""
    if outcome is None or outcome.ok:
        return 0
    if outcome.kind == "backend_failed":
        return EXIT_NO_NODE if outcome.code == "node_unreachable" else EXIT_FAILED
    return EXIT_NO_ANSWER


def _say_what_next(agent: PlanRun, state: Path | None) -> None:
    if agent.resting:
        where = (
            f"ringleader agent resume {state} --approve" if state else "run again with --approve, or with --state FILE"
        )
        print(f"  next    allow the calls: {where}", file=sys.stderr)
    elif agent.outcome is not None and not agent.outcome.ok and state is not None:
        print(f"  next    go on: ringleader agent resume {state}", file=sys.stderr)


def _keeper(file: Path) -> Callable[[dict[str, Any]], None]:
    """Writes the state beside `file` and then in its place, readable by its owner only: prompts may be private."""

    def keep(saved: dict[str, Any]) -> None:
        beside = file.with_name(f".{file.name}.new")
        beside.touch(mode=0o600)
        beside.write_text(json.dumps(saved, ensure_ascii=False), encoding="utf-8")
        beside.replace(file)

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
