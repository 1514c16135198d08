"""`ringleader cluster`: who belongs to this machine's cluster, and who is let in, renewed, forgotten, or leaves.

These work on the node's state directory, beside a running node; what they print for scripts goes to stdout.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringleader.cli.client import DEFAULT_URL, run
from ringleader.cli.membership import Home, State, membership_directory
from ringleader.errors import NodeUnreachable, NotTrusted

if TYPE_CHECKING:  # gRPC and certificates take a while to import, which `--help` need not wait for
    from ringleader.trust.credentials import Credentials
    from ringleader.trust.members import Member

app = typer.Typer(help="Let machines into this cluster, list them, forget them, leave it.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


Door = Annotated[
    str, typer.Option(help="host:port of the founder's join door, should it have moved since this machine joined.")
]


@app.command()
def invite(
    ttl: Annotated[str, typer.Option(help="How long the invitation is good: 90s, 10m, 2h, 1d.")] = "10m",
    uses: Annotated[int, typer.Option(help="How many machines may use it.")] = 1,
    address: Annotated[
        list[str] | None,
        typer.Option(help="host:port of this node's join door as others see it, if not found out; repeatable."),
    ] = None,
    home: Home = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Print an invitation for another machine. Whoever has it can join: treat it as a password."""
    raise typer.Exit(run(_invite(membership_directory(home, state), ttl, uses, tuple(address or ()), as_json)))


@app.command()
def nodes(door: Door = "", home: Home = None, state: State = None, as_json: AsJson = False) -> None:
    """List who was let in."""
    raise typer.Exit(run(_nodes(membership_directory(home, state), door, as_json)))


@app.command()
def forget(
    node: Annotated[str, typer.Argument(help="Its name, or its id where names are not unique.")],
    home: Home = None,
    state: State = None,
) -> None:
    """Let a machine in no more, from now on and for good. It can be invited again as a new node."""
    raise typer.Exit(run(_forget(membership_directory(home, state), node)))


@app.command()
def rotate(door: Door = "", home: Home = None, state: State = None) -> None:
    """Give this node a new key and certificate; on the node that made the cluster, also end all open invitations."""
    raise typer.Exit(run(_rotate(membership_directory(home, state), door)))


@app.command()
def leave(
    dissolve: Annotated[
        bool, typer.Option("--dissolve", help="Go even if this node holds the cluster's keys and others need them.")
    ] = False,
    door: Door = "",
    home: Home = None,
    state: State = None,
) -> None:
    """Delete this machine's membership. Its models stay."""
    raise typer.Exit(run(_leave(membership_directory(home, state), door, dissolve)))


@app.command()
def certificate(
    hosts: Annotated[list[str], typer.Argument(help="Names and addresses by which clients reach that node's API.")],
    home: Home = None,
    state: State = None,
) -> None:
    """Print a certificate and key for the https of another node's API (its --api-cert). Treat it as a password."""
    raise typer.Exit(run(_certificate(membership_directory(home, state), hosts)))


@app.command()
def authority(home: Home = None, state: State = None) -> None:
    """Print the cluster's own certificate, by which clients know its APIs' https."""
    raise typer.Exit(run(_authority(membership_directory(home, state))))


@app.command()
def events(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    url: Annotated[str, typer.Option(envvar="RINGLEADER_URL", help="A node's API.")] = DEFAULT_URL,
) -> None:
    """Show what the cluster decides, as it happens, until ^C. Comes back when the node does."""
    from ringleader.cli.events import listen

    raise typer.Exit(run(listen(url, as_json)))


async def _invite(directory: Path, ttl: str, uses: int, addresses: tuple[str, ...], as_json: bool) -> int:
    from ringleader.net.door import door_addresses
    from ringleader.trust import invitations
    from ringleader.trust.authority import load_authority

    ttl_s = invitations.parse_ttl(ttl)
    load_authority(directory)  # on another node say who can invite, not that no door is open here
    opened = invitations.invite(directory, addresses or door_addresses(directory), ttl_s, uses, time.time())
    if as_json:
        print(json.dumps({"token": str(opened), "ttl_s": ttl_s, "uses": uses, "addresses": opened.addresses}))
        return 0
    whom = "the other machine" if uses == 1 else f"up to {uses} other machines"
    print(f"On {whom}, within {_spoken(ttl_s)}:", file=sys.stderr)
    print(f"ringleader node --join {opened}")
    return 0


async def _nodes(directory: Path, door: str, as_json: bool) -> int:
    credentials = _credentials(directory, door)
    members = await _members(credentials)
    if as_json:
        listed = [_line(each) | {"this": each.node == credentials.node} for each in members]
        print(json.dumps({"cluster": credentials.cluster, "name": credentials.name, "nodes": listed}))
        return 0
    print(f"{credentials.name} ({credentials.cluster})")
    width = max([4, *(len(each.name) for each in members)])
    print(f"{'NAME'.ljust(width)}  {'ID'.ljust(16)}  {'SINCE'.ljust(16)}  STATE")
    for each in members:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.since))
        state = "forgotten" if each.revoked else "made the cluster" if each.founder else "member"
        here = ", this machine" if each.node == credentials.node else ""
        print(f"{each.name.ljust(width)}  {each.node}  {since}  {state}{here}")
    return 0


async def _forget(directory: Path, node: str) -> int:
    from ringleader.trust.cluster import forget as forget_member

    member, revocations = forget_member(directory, node)
    print(f"{member.name} ({member.node}) is forgotten: no node that hears of this lets it in again.")
    print(f"(list of the forgotten: number {revocations.number}; nodes tell each other)", file=sys.stderr)
    return 0


async def _rotate(directory: Path, door: str) -> int:
    from ringleader.net.joining import rotate as renew_here
    from ringleader.trust.authority import has_authority
    from ringleader.trust.cluster import rotate_founder
    from ringleader.trust.invitations import withdraw_all

    credentials = _credentials(directory, door)
    if has_authority(credentials.directory):
        rotate_founder(credentials.directory)
        ended = withdraw_all(credentials.directory, time.time())
        print(f"This node has a new key; {ended} open invitation{'' if ended == 1 else 's'} ended.")
    else:
        await renew_here(credentials)
        print("This node has a new key.")
    print(
        "Restart the node here to use it. The old one stays valid: if it was stolen, run cluster forget",
        file=sys.stderr,
    )
    return 0


async def _leave(directory: Path, door: str, dissolve: bool) -> int:
    from ringleader.net.joining import say_goodbye
    from ringleader.trust.authority import has_authority
    from ringleader.trust.cluster import leave as leave_here

    credentials = _credentials(directory, door)
    if not has_authority(credentials.directory):
        try:
            await say_goodbye(credentials)
        except (NodeUnreachable, NotTrusted) as error:
            print(f"the node that made the cluster was not told ({error})", file=sys.stderr)
            print(f"tell it there: ringleader cluster forget {credentials.node}", file=sys.stderr)
    leave_here(credentials.directory, even_as_founder=dissolve)
    print(f'This machine has left "{credentials.name}". Its models are still here. Stop its node if one runs.')
    return 0


async def _certificate(directory: Path, hosts: list[str]) -> int:
    from ringleader.trust.api_tls import certificate_for

    print(certificate_for(directory, hosts).decode(), end="")
    return 0


async def _authority(directory: Path) -> int:
    print(_credentials(directory, "").authority.decode(), end="")
    return 0


async def _members(credentials: Credentials) -> tuple[Member, ...]:
    from ringleader.net.joining import list_members
    from ringleader.trust.authority import has_authority
    from ringleader.trust.members import read_members

    if has_authority(credentials.directory):
        return read_members(credentials.directory)
    return await list_members(credentials)


def _credentials(directory: Path, door: str) -> Credentials:
    from ringleader.trust.credentials import load
    from ringleader.trust.invitations import check_address

    found = load(directory)
    if found is None:
        raise NotTrusted(
            f"no node of a cluster has its keys in {directory}: start one with ringleader node, or join one with "
            "--join; if it was started with --state, name the same folder here"
        )
    if door and found.door:  # a founder has no door to go to
        check_address(door)
        return replace(found, door=(door,))
    return found


def _line(member: Member) -> dict[str, Any]:
    return {
        "id": member.node,
        "name": member.name,
        "since": member.since,
        "revoked": member.revoked,
        "founder": member.founder,
    }


def _spoken(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} seconds"
