"""`ringleader models`: what lies on this machine, and how more comes to it.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 well, 1 it failed, 2 it was written wrongly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ringleader.cli.model_page import model_object, model_page
from ringleader.cli.progress import open_reporter
from ringleader.errors import RingleaderError
from ringleader.models.catalogue import DEFAULT_MODEL
from ringleader.models.headers import read_costs
from ringleader.models.settings import read_settings, set_dialect
from ringleader.models.sizes import human_bytes
from ringleader.models.store import Store, StoredModel
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ModelId

if TYPE_CHECKING:  # importing it takes a moment (the grammar engine), which `--help` need not wait for
    from ringleader.language.voice_report import VoiceReport

app = typer.Typer(help="The models on this machine.", no_args_is_help=True)

AUTO = "auto"  # in place of a dialect's name
INTERRUPTED_EXIT = 130  # what a shell gives for Ctrl-C

Reference = Annotated[
    str, typer.Argument(metavar="MODEL", help="A short name (smollm2-135m), org/name, hf:org/name, or a path.")
]


@app.command("list")
def list_models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array instead of a table.")] = False,
) -> None:
    """Show all models: those that are here, and the one that can be pulled without a hub."""
    with _faults():
        models = Store().list()
    if as_json:
        print(json.dumps([_described(model) for model in models], indent=2))
    else:
        print(_table(models))


@app.command()
def pull(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A short name, org/name or hf:org/name.")
    ] = DEFAULT_MODEL,
    weights: Annotated[
        Literal["dense", "packed"] | None,
        typer.Option(help="How to convert: dense fp32 (default on Linux) or packed 4-bit fp16 (default on macOS)."),
    ] = None,
) -> None:
    """Fetch a model, check it, and convert it if need be. Prints its directory.

    It may be interrupted at any time: the next pull goes on, or begins again, by itself.
    """
    reporter = open_reporter()
    try:
        with _faults():
            path = Store().pull(model, reporter, weights=weights)
    except KeyboardInterrupt:
        reporter.close()
        _complain(f"interrupted; nothing half-made was left. Go on with: ringleader models pull {model}")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    finally:
        reporter.close()
    print(path)


@app.command()
def path(model: Reference) -> None:
    """Print the directory of a model."""
    with _faults():
        print(Store().resolve(model))


@app.command()
def show(
    model: Reference,
    dialect: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show it as if this dialect were set; 'auto' for the detected one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Show how a model speaks: its dialect and by what it was detected, markers, thinking, ends, template.

    A dialect is how one family writes tool calls and reasoning. Set another with 'models set'.
    """
    with _faults():
        store = Store()
        directory = store.resolve(model)
        name, override = store.model_id(model), dialect or read_settings(directory).dialect
        report = _report(directory, name, None if override == AUTO else override)
    if as_json:
        print(json.dumps(model_object(name, str(directory), report), indent=2, ensure_ascii=False))
    else:
        print(model_page(name, str(directory), report))
    if report.doubt:
        typer.echo(f"warning: {report.line(name)}", err=True)


@app.command("set")
def set_model(
    model: Reference,
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="The dialect that it speaks, whatever is detected; 'auto' to detect it.")
    ],
) -> None:
    """Set a model's dialect on this machine. Nodes read it when they open the model. Prints the file."""
    from ringleader.language.dialects.detect import require_dialect

    with _faults():
        if dialect != AUTO:
            require_dialect(dialect)
        print(set_dialect(Store(), model, None if dialect == AUTO else dialect))


@app.command()
def remove(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name from 'ringleader models list'.")],
) -> None:
    """Delete a model, or what an interrupted pull left of it."""
    with _faults():
        freed = Store().remove(model)
    typer.echo(f"removed {model}, {human_bytes(freed)} freed", err=True)


def _report(directory: Path, model: ModelId, override: str | None) -> VoiceReport:
    from ringleader.language.prompt import voice
    from ringleader.language.voice_report import voice_report

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    return voice_report(voice(load_tokenizer(directory), read_costs(directory, model).context_max, override))


@contextmanager
def _faults() -> Iterator[None]:
    """Turn our errors into one line and exit code 1."""
    try:
        yield
    except RingleaderError as error:
        _complain(" ".join(str(error).split()))
        raise typer.Exit(1) from error


def _complain(message: str) -> None:
    typer.echo(f"error: {message}", err=True)


def _described(model: StoredModel) -> dict[str, object]:
    return {
        "name": model.name,
        "state": model.state,
        "family": model.family or None,
        "layers": model.layers or None,
        "size_bytes": model.size_bytes,
        "weights": model.weights or None,
        "path": str(model.path) if model.path else None,
        "note": model.note or None,
    }


def _table(models: list[StoredModel]) -> str:
    rows = [("NAME", "FAMILY", "LAYERS", "SIZE", "WEIGHTS", "STATE")]
    for model in models:
        size = human_bytes(model.size_bytes) if model.size_bytes else "-"
        layers = str(model.layers) if model.layers else "-"
        rows.append((model.name, model.family or "-", layers, size, model.weights or "-", model.state))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    notes = [f"{model.name}: {model.note}" for model in models if model.note]
    return "\n".join([*lines, *([""] if notes else []), *notes])
