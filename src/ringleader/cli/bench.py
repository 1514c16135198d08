"""`ringleader bench`: what this machine does with what we promise, as ratios taken in one run.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 measured, 1 it failed, 2 it was written wrongly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.cli.bench_runs import (
    PACE_DEFAULT,
    AsJson,
    Keep,
    Measured,
    Model,
    Pace,
    Pin,
    Real,
    Rounds,
    Shards,
    Tokens,
    Trace,
    in_parts,
    present,
    resolve,
    say,
    setting,
)
from ringleader.models.catalogue import DEFAULT_MODEL
from ringleader.values import ModelId

app = typer.Typer(help="Measure what this machine does with what we promise.", no_args_is_help=True)

Dialects = Annotated[bool, typer.Option("--dialects", help="Every dialect on the model's vocabulary, and no ring.")]
PromptTokens = Annotated[int, typer.Option("--prompt", min=32, help="Tokens of the prompt.")]


@app.command()
def decode(
    model: Model = DEFAULT_MODEL,
    tokens: Tokens = 24,
    runs: Rounds = 18,
    pace: Pace = PACE_DEFAULT,
    real: Real = True,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Time a token of one stream: one shard against mlx_lm's own generate, two shards against one, four at a pace."""
    directory, name = resolve(model)
    how = setting(pin, trace, pace)
    title = f"decode: {name}, {runs} rounds of {tokens} tokens"
    present("decode", title, _decode(directory, name, tokens, runs, how, real), as_json, keep, trace)


async def _decode(directory: Path, name: ModelId, tokens: int, runs: int, how: Any, real: bool) -> Measured:
    from ringleader.bench.decode import measure_decode
    from ringleader.bench.paced import paced_decode
    from ringleader.bench.report import Findings

    found = Findings((), {})
    if real:
        result = await measure_decode(directory, name, tokens, runs, say, how.under)
        found = Findings(tuple(result.lines()), result.flat())
    if how.pace is not None:
        found = found.with_(await paced_decode(directory, how.paced, 3, 40, say))
    return found


@app.command()
def prefill(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 1,
    prompt: PromptTokens = 512,
    runs: Rounds = 3,
    pace: Pace = PACE_DEFAULT,
    real: Real = True,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Prompt tokens a second against mlx_lm, and a prompt of 2,000 tokens over two stages at a pace."""
    from ringleader.bench.paced import paced_prefill
    from ringleader.bench.prefill import measure_prefill

    directory, name = resolve(model)
    how = setting(pin, trace, pace)
    measuring = in_parts(
        (lambda: paced_prefill(directory, how.paced, 3, say)) if how.pace is not None else None,
        (lambda: measure_prefill(directory, name, how.under, shards, prompt, runs, say)) if real else None,
    )
    present("prefill", f"prefill: {name}, {runs} rounds", measuring, as_json, keep, trace)


@app.command()
def concurrency(
    model: Model = DEFAULT_MODEL,
    tokens: Tokens = 48,
    runs: Rounds = 3,
    pace: Pace = PACE_DEFAULT,
    real: Real = True,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Tokens a second of 1 to 16 streams on one shard, two shards and mlx_lm's batches; 8 on stages at a pace."""
    from ringleader.bench.concurrency import measure_concurrency
    from ringleader.bench.paced import paced_concurrency

    directory, name = resolve(model)
    how = setting(pin, trace, pace)
    measuring = in_parts(
        (lambda: paced_concurrency(directory, how.paced, 3, 60, (1, 2, 4), say)) if how.pace is not None else None,
        (lambda: measure_concurrency(directory, name, how.under, tokens, runs, say)) if real else None,
    )
    present("concurrency", f"concurrency: {name}, {runs} rounds of {tokens} tokens", measuring, as_json, keep, trace)


@app.command()
def rhythm(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 2,
    prompt: PromptTokens = 4000,
    runs: Rounds = 1,
    pace: Pace = PACE_DEFAULT,
    real: Real = True,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """The gaps between an answer's tokens while a long prompt arrives, against those before."""
    from ringleader.bench.gaps import measure_rhythm, paced_rhythm

    directory, name = resolve(model)
    how = setting(pin, trace, pace)
    measuring = in_parts(
        (lambda: paced_rhythm(directory, how.paced, shards, prompt, runs, say)) if how.pace is not None else None,
        (lambda: measure_rhythm(directory, name, how.under, shards, prompt, runs, say)) if real else None,
    )
    present("rhythm", f"rhythm: {name}, {shards} shards, a prompt of {prompt} tokens", measuring, as_json, keep, trace)


@app.command()
def cache(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 2,
    prompt: PromptTokens = 2000,
    runs: Rounds = 2,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Time to the first token of a conversation's second turn, against its first."""
    from ringleader.bench.cache import measure_cache

    directory, name = resolve(model)
    measuring = measure_cache(directory, name, setting(pin, trace).under, shards, prompt, runs, say)
    present("cache", f"cache: {name}, {shards} shards, {prompt} tokens, {runs} rounds", measuring, as_json, keep, trace)


@app.command()
def lookup(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 2,
    tokens: Tokens = 160,
    runs: Rounds = 3,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Tokens a second of a code edit with drafts that were looked up, against without."""
    from ringleader.bench.lookup import measure_lookup

    directory, name = resolve(model)
    measuring = measure_lookup(directory, name, setting(pin, trace).under, shards, tokens, runs, say)
    present("lookup", f"lookup: {name}, {shards} shards, {runs} rounds", measuring, as_json, keep, trace)


@app.command()
def mixed(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 2,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Several agents at once: one long system prompt and its tools for all, turn after turn of forced calls."""
    from ringleader.bench.mixed import measure_mixed

    directory, name = resolve(model)
    measuring = measure_mixed(directory, name, setting(pin, trace).under, shards, say)
    present("mixed", f"mixed: {name}, {shards} shards", measuring, as_json, keep, trace)


@app.command()
def api(
    model: Model = DEFAULT_MODEL,
    tokens: Tokens = 128,
    runs: Rounds = 5,
    profile: Annotated[Path | None, typer.Option(help="Write a profile of the server here, for pstats.")] = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Tokens a second that API and parser stream on one core: 64 streams of a ring that answers at once."""
    from ringleader.bench.api import measure_api

    directory, name = resolve(model)
    where = None if profile is None else profile.resolve()
    measuring = measure_api(directory, tokens, runs, where, say)
    present("api", f"api: tokens of {name}, {runs} rounds of {tokens} tokens each", measuring, as_json, keep, None)


@app.command()
def hop(
    hops: Annotated[int, typer.Option(min=2, help="How many hops are timed.")] = 2000,
    tls: Annotated[bool, typer.Option("--tls", help="Also by mutual TLS, as between nodes, and the ratio.")] = False,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Microseconds for one hop of an 8 KiB frame between two processes on loopback."""
    from ringleader.bench.hop import measure_hop, measure_tls_hop

    async def measured() -> Measured:
        return await measure_tls_hop(hops) if tls else await measure_hop(hops)

    present("hop", f"hop: {hops} hops of 8 KiB on loopback", measured(), as_json, keep, None)


@app.command()
def batch(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 1,
    tokens: Tokens = 24,
    runs: Rounds = 5,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Tokens a second of 1, 4 and 16 requests that share passes, against the same in turns."""
    from ringleader.bench.batch import measure_batch

    directory, name = resolve(model)
    title = f"batch: {name}, {shards} shards, {runs} rounds of {tokens} tokens"
    present("batch", title, measure_batch(directory, name, shards, tokens, runs, say), as_json, keep, None)


@app.command()
def wire(model: Model = DEFAULT_MODEL, keep: Keep = None, as_json: AsJson = False) -> None:
    """What activations in fewer bytes between two shards change: the next token's probabilities, and frames' bytes."""
    from ringleader.bench.wire import measure_wire

    directory, name = resolve(model)
    present("wire", f"wire: {name}, two shards", measure_wire(directory, name, say), as_json, keep, None)


@app.command("forced-call")
def forced_call(
    model: Model = DEFAULT_MODEL,
    shards: Shards = 2,
    tokens: Tokens = 256,
    runs: Rounds = 9,
    pin: Pin = "",
    trace: Trace = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Passes and time of a forced tool call with three texts, with and without forced followers."""
    from ringleader.bench.forced_call import measure_forced_call

    directory, name = resolve(model)
    measuring = measure_forced_call(directory, name, tokens, runs, say, setting(pin, trace).under, shards)
    present("forced-call", f"forced call: {name}, {shards} shards, {runs} rounds", measuring, as_json, keep, trace)


@app.command()
def grammar(
    model: Model = DEFAULT_MODEL,
    tokens: Tokens = 64,
    runs: Rounds = 9,
    dialects: Dialects = False,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """What a grammar costs: to build, to mask a step, and in time a token on a ring of one shard."""
    from ringleader.bench.dialect_costs import measure_dialects
    from ringleader.bench.grammar import measure_grammar

    directory, name = resolve(model)

    async def measured() -> Measured:
        if dialects:
            return measure_dialects(directory, runs, say)
        return await measure_grammar(directory, name, tokens, runs, say)

    title = f"grammar: {name}, {runs} rounds of {tokens} tokens"
    if dialects:
        title = f"grammars on the vocabulary of {name}: build + compile + first mask, mask p50 / p99, forced"
    present("grammar", title, measured(), as_json, keep, None)


@app.command("all")
def everything(model: Model = DEFAULT_MODEL, pin: Pin = "", keep: Keep = None, as_json: AsJson = False) -> None:
    """Every measure that has a target, in a quarter of an hour: measure, target, found, met."""
    from ringleader.cli.bench_all import measure_all

    measure_all(model, pin, keep, as_json)
