"""The `ringleader` program: its commands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from ringleader import __version__
from ringleader.cli.shard import shard

app = typer.Typer(
    name="ringleader",
    help="The Macs on one network as one inference server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def program(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    """The Macs on one network as one inference server."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


app.command(hidden=True)(shard)


def main() -> None:
    """Entry point."""
    app()
