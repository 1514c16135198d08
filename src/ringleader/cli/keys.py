"""`ringleader keys`: who may use this node's API. Works beside a running node, which sees each change at once."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.cli.client import run
from ringleader.cli.membership import Home, State, membership_directory

app = typer.Typer(help="Make, list and revoke keys of this node's API.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, for lists and logs.")],
    concurrent: Annotated[int, typer.Option(help="Answers at once that it allows; 0: any number.")] = 0,
    home: Home = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, this once: only a hash is kept. From the first key on the API asks for one."""
    raise typer.Exit(run(_create(name, concurrent or None, home, state, as_json)))


@app.command("list")
def list_keys(home: Home = None, state: State = None, as_json: AsJson = False) -> None:
    """List keys by name."""
    raise typer.Exit(run(_list(home, state, as_json)))


@app.command()
def revoke(key: Annotated[str, typer.Argument(help="Its name or id.")], home: Home = None, state: State = None) -> None:
    """Make a key good for nothing, at once. Answers that run go on to their end."""
    raise typer.Exit(run(_revoke(key, home, state)))


async def _create(name: str, concurrent: int | None, home: Path | None, state: Path | None, as_json: bool) -> int:
    from ringleader.trust import api_keys

    made, key = api_keys.create(membership_directory(home, state), name, time.time(), concurrent)
    if as_json:
        print(json.dumps({"id": made.id, "name": made.name, "key": key, "concurrent": concurrent}))
        return 0
    print(f"The key of {made.name}; it is not shown again:", file=sys.stderr)
    print(key)
    return 0


async def _list(home: Path | None, state: Path | None, as_json: bool) -> int:
    from ringleader.trust import api_keys

    keys = api_keys.read(membership_directory(home, state))
    if as_json:
        print(json.dumps({"keys": [_line(each) for each in keys]}))
        return 0
    if not keys:
        print("No keys. Make one: ringleader keys create NAME")
        return 0
    width = max(4, *(len(each.name) for each in keys))
    print(f"{'NAME'.ljust(width)}  ID        {'MADE'.ljust(16)}  AT ONCE")
    for each in keys:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.made))
        print(f"{each.name.ljust(width)}  {each.id}  {made}  {each.concurrent or 'any number'}")
    return 0


async def _revoke(key: str, home: Path | None, state: Path | None) -> int:
    from ringleader.trust import api_keys

    directory = membership_directory(home, state)
    gone = api_keys.revoke(directory, key)
    print(f"The key of {gone.name} opens nothing any more.")
    if not api_keys.read(directory):
        print("It was the last one: a node on loopback asks for no key now.", file=sys.stderr)
    return 0


def _line(key: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "digest"}
