"""Which node of this machine a command means: the options that name it, and where it keeps its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[Path | None, typer.Option(envvar="RINGLEADER_HOME", help="Where models and membership are kept.")]
State = Annotated[Path | None, typer.Option(help="The node's own directory, where it was started with --state.")]


def membership_directory(home: Path | None, state: Path | None) -> Path:
    """Of the node that these options name."""
    from ringleader.trust.credentials import (
        state_directory,  # takes a while to import, which `--help` need not wait for
    )

    return state.absolute() if state is not None else state_directory(home)
