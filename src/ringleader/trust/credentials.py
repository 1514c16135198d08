"""What this node proves itself with, where that lies, and the names in certificates.

The state directory holds one membership. A membership exists when `membership.json` does: it is written last.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from ringleader.errors import NotTrusted
from ringleader.trust.private_files import (
    locked,
    private_directory,
    read_json,
    read_private,
    write_json,
    write_private,
)
from ringleader.values import NodeId

HOME_VARIABLE = "RINGLEADER_HOME"
NODE_FILE, MEMBERSHIP_FILE = "node.json", "membership.json"
AUTHORITY_FILE = "authority.crt"
PROOF_FILE = "node.pem"  # certificate and private key in one file, so that they change as one
KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"
ID_BYTES = 8  # of nodes and clusters, random: 16 hexadecimal digits
ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
DOMAIN = "ringleader"  # certificates' names end with it; no resolver ever sees them


@dataclass(frozen=True, slots=True)
class Credentials:
    """A node's place in a cluster: certificates as PEM, and its private key.

    `name` is the cluster's, for people; two clusters may share a name, never the id `cluster`. `door` are the
    addresses (host:port) of the founder's join door, () on the founder; `peers` the control addresses told at joining.
    """

    node: NodeId
    cluster: str
    name: str
    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    directory: Path
    door: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()


def state_directory(home: Path | None = None) -> Path:
    """Where this machine's node keeps its membership: below `home`, $RINGLEADER_HOME or the user's data directory."""
    if home is None:
        given = os.environ.get(HOME_VARIABLE)
        home = Path(given).expanduser() if given else user_data_path("ringleader")
    return home.absolute() / "cluster"


def node_name(cluster: str, node: NodeId) -> str:
    """The DNS name that only this node's certificate has."""
    return f"{node}.{cluster}.{DOMAIN}"


def member_name(cluster: str) -> str:
    """The DNS name that the certificate of every node of the cluster has."""
    return f"{cluster}.{DOMAIN}"


def node_of(names: list[str], cluster: str) -> NodeId | None:
    """The node whose certificate has these DNS names; None when it is none of this cluster's."""
    found = [name.partition(".")[0] for name in names if name.partition(".")[2] == member_name(cluster)]
    return NodeId(found[0]) if len(found) == 1 and ID.fullmatch(found[0]) else None


def new_id() -> NodeId:
    """A random id, for a node or a cluster."""
    return NodeId(secrets.token_hex(ID_BYTES))


def node_id(directory: Path) -> NodeId:
    """This node's id: random, made at the first start, kept since. Raises NotTrusted when it cannot be read."""
    with locked(directory):
        return NodeId(str(_node_file(directory)["node"]))


def read_term(directory: Path) -> int:
    """The highest term number that this node has kept; 0 at first."""
    with locked(directory):
        return int(_node_file(directory)["term"])


def write_term(directory: Path, number: int) -> None:
    """Keep a term number, on the disk before this returns; a lower one than is kept changes nothing."""
    with locked(directory):
        kept = _node_file(directory)
        if number > kept["term"]:
            write_json(directory / NODE_FILE, {**kept, "term": number})


def load(directory: Path) -> Credentials | None:
    """This node's membership, None when it has none yet.

    Raises NotTrusted when a file is missing, open to others, or unreadable.
    """
    private_directory(directory)
    about = read_json(directory / MEMBERSHIP_FILE)
    if about is None:
        return None
    certificate, begins, key = _needed(directory / PROOF_FILE).partition(KEY_BEGINS)
    try:
        return Credentials(
            node=NodeId(_id(about["node"])),
            cluster=_id(about["cluster"]),
            name=str(about["name"]),
            authority=_needed(directory / AUTHORITY_FILE),
            certificate=certificate,
            key=begins + key,
            directory=directory,
            door=tuple(map(str, about["door"])),
            peers=tuple(map(str, about["peers"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotTrusted(
            f"{directory / MEMBERSHIP_FILE} is damaged ({error!r}): run ringleader cluster leave"
        ) from error


def store(credentials: Credentials) -> None:
    """Write a membership; the caller holds the directory's lock."""
    directory = credentials.directory
    write_private(directory / PROOF_FILE, credentials.certificate + credentials.key)
    write_private(directory / AUTHORITY_FILE, credentials.authority)
    about = {
        "node": credentials.node,
        "cluster": credentials.cluster,
        "name": credentials.name,
        "door": credentials.door,
        "peers": credentials.peers,
    }
    write_json(directory / MEMBERSHIP_FILE, about)


def erase(directory: Path, node: NodeId | None = None) -> None:
    """Delete the membership and all that belongs to it; the caller holds the directory's lock.

    This node's id goes too: it gets the id `node`, or a new one.

    Models lie elsewhere and stay. The term stays: it must never go back.
    """
    term = _node_file(directory)["term"]
    (directory / MEMBERSHIP_FILE).unlink(missing_ok=True)  # first: what is left without it is no membership
    for path in directory.iterdir():
        if path.is_file() and not path.name.endswith(".lock"):  # a running node holds one
            path.unlink(missing_ok=True)
    write_json(directory / NODE_FILE, {"node": node or new_id(), "term": term})


def _node_file(directory: Path) -> dict[str, Any]:
    path = directory / NODE_FILE
    found = read_json(path)
    if found is None:
        found = {"node": new_id(), "term": 0}
        write_json(path, found)
    try:
        return {"node": _id(found["node"]), "term": int(found["term"])}
    except (KeyError, TypeError, ValueError) as error:
        raise NotTrusted(f"{path} is damaged ({error!r}): restore it or delete it") from error


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise ValueError(f"{value!r} is no id")
    return value


def _needed(path: Path) -> bytes:
    data = read_private(path)
    if data is None:
        raise NotTrusted(f"{path} is missing: restore it, or run ringleader cluster leave and join anew")
    return data
