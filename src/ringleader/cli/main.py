"""The `ringleader` program: its commands, each in a file of its own."""

from __future__ import annotations

import typer

from ringleader.cli.shard import shard

app = typer.Typer(
    name="ringleader",
    help="The Macs on one network as one inference server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(hidden=True)(shard)


def main() -> None:
    """Entry point."""
    app()
