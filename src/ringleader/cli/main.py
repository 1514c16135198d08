"""The `ringleader` program: its commands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

import ringleader
from ringleader.cli import agent, bench, cluster, keys, models
from ringleader.cli.chat import chat
from ringleader.cli.demo import demo
from ringleader.cli.node import node
from ringleader.cli.plan import plan
from ringleader.cli.shard import shard
from ringleader.cli.status import status

app = typer.Typer(
    name="ringleader",
    help="The Macs on one network as one inference server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ringleader {ringleader.__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """The Macs on one network as one inference server."""


app.command()(node)
app.command()(demo)
app.command()(chat)
app.command()(status)
app.command()(plan)
app.add_typer(models.app, name="models")
app.add_typer(cluster.app, name="cluster")
app.add_typer(keys.app, name="keys")
app.add_typer(agent.app, name="agent")
app.add_typer(bench.app, name="bench")
app.command(hidden=True)(shard)


def main() -> None:
    """Entry point."""
    app()
