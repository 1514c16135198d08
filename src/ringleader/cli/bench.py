"""`ringleader bench`: what this machine does with what we promise, as ratios taken in one run.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 measured, 1 it failed, 2 it was written wrongly.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from ringleader.errors import RingleaderError
from ringleader.models.catalogue import DEFAULT_MODEL
from ringleader.models.store import Store
from ringleader.values import ModelId

app = typer.Typer(help="Measure what this machine does with what we promise.", no_args_is_help=True)

INTERRUPTED_EXIT = 130

Result = TypeVar("Result")
Model = Annotated[str, typer.Option(help="A model that is here: store name or path.")]
Tokens = Annotated[int, typer.Option(min=8, help="Tokens of an answer, at most.")]
Rounds = Annotated[int, typer.Option("--runs", min=1, help="Rounds; in each, every contestant has its turn.")]
Dialects = Annotated[bool, typer.Option("--dialects", help="Every dialect on the model's vocabulary, and no ring.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one flat JSON object.")]


class Measured(Protocol):
    """What every benchmark gives."""

    def lines(self) -> list[Any]: ...

    def flat(self) -> dict[str, Any]: ...


@app.command()
def decode(model: Model = DEFAULT_MODEL, tokens: Tokens = 24, runs: Rounds = 18, as_json: AsJson = False) -> None:
    """Tokens a second: one shard against mlx_lm's own generate, two shards against one."""
    from ringleader.bench.decode import measure_decode

    directory, name = _resolve(model)
    result = _run(measure_decode(directory, name, tokens, runs, _say))
    _show(f"decode: {name}, {runs} rounds of {result.tokens} tokens", result, as_json)


@app.command()
def hop(
    hops: Annotated[int, typer.Option(min=2, help="How many hops are timed.")] = 2000,
    tls: Annotated[bool, typer.Option("--tls", help="Also by mutual TLS, as between nodes, and the ratio.")] = False,
    as_json: AsJson = False,
) -> None:
    """Microseconds for one hop of an 8 KiB frame between two processes on loopback."""
    from ringleader.bench.hop import measure_hop, measure_tls_hop

    result: Measured = _run(measure_tls_hop(hops)) if tls else _run(measure_hop(hops))
    _show(f"hop: {hops} hops of 8 KiB on loopback", result, as_json)


@app.command()
def batch(
    model: Model = DEFAULT_MODEL,
    shards: Annotated[int, typer.Option(min=1, help="Shards of each ring, on this machine.")] = 1,
    tokens: Tokens = 24,
    runs: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Tokens a second of 1, 4 and 16 requests that share passes, against the same in turns."""
    from ringleader.bench.batch import measure_batch

    directory, name = _resolve(model)
    result = _run(measure_batch(directory, name, shards, tokens, runs, _say))
    _show(f"batch: {name}, {shards} shards, {runs} rounds of {tokens} tokens", result, as_json)


@app.command()
def wire(model: Model = DEFAULT_MODEL, as_json: AsJson = False) -> None:
    """What activations in fewer bytes between two shards change: the next token's probabilities, and frames' bytes."""
    from ringleader.bench.wire import measure_wire

    directory, name = _resolve(model)
    result = _run(measure_wire(directory, name, _say))
    _show(f"wire: {name}, two shards, {result.places} places of a text", result, as_json)


@app.command("forced-call")
def forced_call(model: Model = DEFAULT_MODEL, tokens: Tokens = 256, runs: Rounds = 9, as_json: AsJson = False) -> None:
    """Passes and time of the demo's forced tool call over two shards, with and without forced followers."""
    from ringleader.bench.forced_call import measure_forced_call

    directory, name = _resolve(model)
    result = _run(measure_forced_call(directory, name, tokens, runs, _say))
    _show(f"forced call: {name}, two shards, {runs} rounds", result, as_json)


@app.command()
def grammar(
    model: Model = DEFAULT_MODEL,
    tokens: Tokens = 64,
    runs: Rounds = 9,
    dialects: Dialects = False,
    as_json: AsJson = False,
) -> None:
    """What a grammar costs: to build, to mask a step, and in time a token on a ring of one shard."""
    from ringleader.bench.grammar import measure_grammar

    directory, name = _resolve(model)
    if dialects:
        _of_dialects(directory, name, runs, as_json)
        return
    result = _run(measure_grammar(directory, name, tokens, runs, _say))
    _show(f"grammar: {name}, {runs} rounds of {tokens} tokens", result, as_json)


def _of_dialects(directory: Path, name: ModelId, runs: int, as_json: bool) -> None:
    from ringleader.bench.dialect_costs import measure_dialects

    try:
        result = measure_dialects(directory, runs, _say)
    except RingleaderError as error:
        raise _failed(error) from error
    title = f"grammars on the vocabulary of {name}: build + compile + first mask, mask p50 / p99, forced"
    _show(title, result, as_json)


def _resolve(model: str) -> tuple[Path, ModelId]:
    try:
        store = Store()
        return store.resolve(model), store.model_id(model)
    except RingleaderError as error:
        raise _failed(error) from error


def _run(measuring: Coroutine[Any, Any, Result]) -> Result:
    import uvloop

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        return uvloop.run(measuring)
    except (RingleaderError, TimeoutError) as error:
        raise _failed(error) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED_EXIT) from None


def _failed(error: Exception) -> typer.Exit:
    typer.echo(f"error: {' '.join(str(error).split()) or 'it took too long'}", err=True)
    return typer.Exit(1)


def _show(title: str, result: Measured, as_json: bool) -> None:
    from ringleader.bench.report import table

    print(json.dumps(result.flat()) if as_json else table(title, result.lines()))


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
