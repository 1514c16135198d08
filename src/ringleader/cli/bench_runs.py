"""How `ringleader bench` runs a benchmark: resolves the model, measures, shows, keeps. The commands: `bench.py`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from ringleader.errors import RingleaderError
from ringleader.models.store import Store
from ringleader.values import ModelId

if TYPE_CHECKING:  # what measures is imported when it is asked for: `--help` need not wait
    from ringleader.bench.report import Findings

INTERRUPTED_EXIT = 130

Result = TypeVar("Result")
Model = Annotated[str, typer.Option(help="A model that is here: store name or path.")]
Tokens = Annotated[int, typer.Option(min=8, help="Tokens of an answer, at most.")]
Rounds = Annotated[int, typer.Option("--runs", min=1, help="Rounds; in each, every contestant has its turn.")]
Shards = Annotated[int, typer.Option(min=1, max=8, help="Shards of the ring, on this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one flat JSON object.")]
Pace = Annotated[str, typer.Option(help="What each stage takes in the paced part; empty leaves that part out.")]
Real = Annotated[bool, typer.Option("--real/--no-real", help="The part with real compute.")]
Pin = Annotated[str, typer.Option(help="Tie shards to processors, as in 0,1 (Linux).")]
Trace = Annotated[Path | None, typer.Option(help="Write every pass of every shard to this file, for ui.perfetto.dev.")]
Keep = Annotated[Path | None, typer.Option(help="Keep the result below this folder, as in docs/benchmarks.")]
PACE_DEFAULT = "pass_ms=20,prompt_token_ms=0.5"


class Measured(Protocol):
    """What every benchmark gives."""

    def lines(self) -> list[Any]: ...

    def flat(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """The options that all benchmarks of rings share, as values."""

    pace: Any
    pins: tuple[int, ...]
    trace: Path | None

    @property
    def under(self) -> Any:
        """Real compute."""
        from ringleader.bench.conditions import Conditions

        return Conditions(pins=self.pins, trace=self.trace)

    @property
    def paced(self) -> Any:
        """At the pace."""
        from ringleader.bench.conditions import Conditions

        return Conditions(pace=self.pace, pins=self.pins, trace=self.trace)


def setting(pin: str = "", trace: Path | None = None, pace: str = "") -> Setting:
    """Read the shared options; what is wrong with one ends the command."""
    from ringleader.bench.conditions import parse_pins
    from ringleader.shard.pace import parse_pace

    try:
        where = None if trace is None else trace.resolve()
        return Setting(parse_pace(pace) if pace else None, parse_pins(pin), where)
    except RingleaderError as error:
        raise failed(error) from error


def resolve(model: str) -> tuple[Path, ModelId]:
    """The model's directory and name."""
    try:
        store = Store()
        return store.resolve(model), store.model_id(model)
    except RingleaderError as error:
        raise failed(error) from error


def run(measuring: Coroutine[Any, Any, Result]) -> Result:
    """Measure; an error ends the command."""
    import uvloop

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        return uvloop.run(measuring)
    except (RingleaderError, TimeoutError) as error:
        raise failed(error) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED_EXIT) from None


async def in_parts(*parts: Callable[[], Awaitable[Findings]] | None) -> Findings:
    """What the parts of one benchmark find, one after the other; a part that was left out is None."""
    from ringleader.bench.report import Findings

    found = Findings((), {})
    for part in parts:
        if part is not None:
            found = found.with_(await part())
    return found


def present(
    command: str,
    title: str,
    measuring: Coroutine[Any, Any, Measured],
    as_json: bool,
    keep: Path | None,
    trace: Path | None,
) -> Measured:
    """Measure, print what was found and what was to be reached, keep it where that was asked for."""
    from ringleader.bench.keeping import circumstances, load_now
    from ringleader.bench.keeping import keep as keep_run
    from ringleader.bench.report import table
    from ringleader.bench.targets import judged

    load = load_now()
    found = run(measuring)
    merge_trace(trace)
    flat = found.flat()
    where = circumstances(load)
    if as_json:
        about = {"load_average_before": where.load[0], "load_average_after": where.load[1], "commit": where.commit}
        print(json.dumps({**flat, **about}))
    else:
        print(table(title, [*found.lines(), *judged(command, flat)]))
        print(f"  load average {where.load[0]} to {where.load[1]}, commit {where.commit}", flush=True)
    if keep is not None:
        say(f"kept in {keep_run(keep, command, flat, where)}")
        draw_scaling(keep, command, flat)
    return found


def draw_scaling(folder: Path, command: str, values: dict[str, Any]) -> None:
    """The picture of what streams and stages are worth, beside the results of `concurrency`."""
    from ringleader.bench.plot import draw
    from ringleader.bench.scaling import charts

    if command == "concurrency" and (found := charts(values)):
        (folder / "scaling.svg").write_text(draw(found), encoding="utf-8")


def merge_trace(trace: Path | None) -> None:
    """Make one trace of what the shards wrote."""
    from ringleader.shard.trace import merge

    if trace is not None:
        say(f"{merge(trace.resolve())} passes in {trace}: open it at ui.perfetto.dev")


def failed(error: Exception) -> typer.Exit:
    """Say what went wrong."""
    typer.echo(f"error: {' '.join(str(error).split()) or 'it took too long'}", err=True)
    return typer.Exit(1)


def say(text: str) -> None:
    """What is being done."""
    print(f"  {text}", file=sys.stderr, flush=True)
