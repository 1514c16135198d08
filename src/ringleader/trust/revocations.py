"""Who is no longer let in: a list that the authority signs and that every node may carry to every other.

A newer list replaces an older one, wherever it comes from; nothing takes a node off it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace

from ringleader.errors import NotTrusted
from ringleader.trust.authority import Authority, has_authority, load_authority, verify
from ringleader.trust.credentials import ID, Credentials
from ringleader.trust.private_files import locked, read_private, write_private
from ringleader.values import NodeId

REVOCATIONS_FILE = "revocations.json"
REVOCATIONS_BYTES_MAX = 256 << 10  # some ten thousand nodes
LOOK_AGAIN_S = 0.5  # how late a list that another process wrote may be seen

# What a node tells its owner that finds itself in the list.
COME_BACK = "To come back: ringleader cluster leave, then ringleader node --join with a new invitation"
FORGOTTEN = f"this node was forgotten by its cluster: nobody there hears it any more. {COME_BACK}"


@dataclass(frozen=True, slots=True)
class Revocations:
    """One signed list. `number` grows with every change; 0 is the empty list that nobody signs."""

    cluster: str
    number: int = 0
    nodes: frozenset[NodeId] = frozenset()
    signature: bytes = b""

    def __bytes__(self) -> bytes:
        """As it is stored and sent; empty for the list that nobody has signed."""
        if not self.number:
            return b""
        return json.dumps({"list": self.content().decode(), "signature": self.signature.hex()}).encode()

    def content(self) -> bytes:
        """What is signed."""
        return json.dumps({"cluster": self.cluster, "number": self.number, "nodes": sorted(self.nodes)}).encode()


def read_list(data: bytes, cluster: str, authority: bytes) -> Revocations:
    """The list in `data`. Raises NotTrusted unless this cluster's authority (its certificate, PEM) has signed it."""
    if not data:
        return Revocations(cluster)
    if len(data) > REVOCATIONS_BYTES_MAX:
        raise NotTrusted(f"a list of revocations has {len(data)} bytes, more than such lists may have")
    try:
        outer = json.loads(data)
        signed, signature = outer["list"].encode(), bytes.fromhex(outer["signature"])
        if not verify(authority, signed, signature):
            raise NotTrusted("a list of revocations is not signed by this cluster's authority")
        inner = json.loads(signed)
        nodes = frozenset(NodeId(each) for each in inner["nodes"] if ID.fullmatch(each))
        found = Revocations(inner["cluster"], int(inner["number"]), nodes, signature)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotTrusted(f"a list of revocations cannot be read: {error!r}") from error
    if found.cluster != cluster or found.number < 1:
        raise NotTrusted("a list of revocations is another cluster's")
    return found


def load_list(credentials: Credentials) -> Revocations:
    """The list as this node knows it."""
    data = read_private(credentials.directory / REVOCATIONS_FILE) or b""
    return read_list(data, credentials.cluster, credentials.authority)


def accept(credentials: Credentials, data: bytes) -> Revocations | None:
    """Take a list that somebody sent: ours now, if that changed it; None if not.

    Raises NotTrusted when it is not the authority's. Who holds the authority's key (it may have been copied) signs
    one list of two that differ, so that no revocation of either is lost.
    """
    sent = read_list(data, credentials.cluster, credentials.authority)
    directory = credentials.directory
    with locked(directory):
        known = load_list(credentials)
        newer, larger = sent.number > known.number, sent.nodes >= known.nodes
        if has_authority(directory) and not (newer and larger):
            if sent.nodes <= known.nodes and not newer:
                return None
            number = max(known.number, sent.number) + 1
            sent = _signed(load_authority(directory), number, known.nodes | sent.nodes)
        elif not newer:
            return None
        write_private(directory / REVOCATIONS_FILE, bytes(sent))
    return sent


def revoke(credentials: Credentials, authority: Authority, node: NodeId) -> Revocations:
    """Put a node on the list for good, on a node that holds the authority's key."""
    with locked(credentials.directory):
        known = load_list(credentials)
        if node in known.nodes:
            return known
        revised = _signed(authority, known.number + 1, known.nodes | {node})
        write_private(credentials.directory / REVOCATIONS_FILE, bytes(revised))
    return revised


def _signed(authority: Authority, number: int, nodes: frozenset[NodeId]) -> Revocations:
    plain = Revocations(authority.cluster, number, nodes)
    return replace(plain, signature=authority.sign(plain.content()))


class RevokedNodes:
    """Who is revoked at this moment, by the file, which other processes change. Cheap: asked for each message."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._path = credentials.directory / REVOCATIONS_FILE
        self._stamp: tuple[int, int, int] | None = None
        self._looked_s = float("-inf")
        self._nodes: frozenset[NodeId] = frozenset()

    def __contains__(self, node: object) -> bool:
        now = time.monotonic()
        if now - self._looked_s >= LOOK_AGAIN_S:
            self._looked_s = now
            self.look()
        return node in self._nodes

    def look(self) -> None:
        """Read the file if it has changed. Raises NotTrusted when it is open to others or was tampered with."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return  # none yet; one that was there and is gone still counts
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._nodes = load_list(self._credentials).nodes | self._nodes
            self._stamp = stamp
