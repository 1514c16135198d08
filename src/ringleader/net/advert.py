"""What a node says of itself in multicast DNS: written bounded, read with suspicion. It grants nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION

SERVICE = "_ringleader._tcp.local."
TEXT_BYTES_MAX = 64  # of each text; with its key one string of a TXT record, all of them one small packet
NUMBER_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Advert:
    """`cluster` is the cluster's short fingerprint, "" before there is one. Ports are TCP ports.

    Raises ValueError where a text is one that readers would refuse.
    """

    node: NodeId
    name: str
    cluster: str
    control_port: int
    join_port: int | None = None
    version: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        if not _is_word(self.node) or not (self.cluster == "" or _is_word(self.cluster)):
            raise ValueError(
                "a node's id and a cluster's fingerprint are 1 to 64 printable ASCII characters, no blanks"
            )
        if not (0 < self.control_port < 65536 and (self.join_port is None or 0 < self.join_port < 65536)):
            raise ValueError("a port is a number from 1 to 65535")

    def label(self) -> str:
        """The service's own label: the name, for people who look; the id's digest, since names are not unique."""
        readable = re.sub(r"[^A-Za-z0-9-]+", "-", self.name).strip("-")[:40] or "node"
        return f"{readable}-{hashlib.sha256(self.node.encode()).hexdigest()[:12]}"

    def to_txt(self) -> dict[str, str]:
        """The TXT record's strings."""
        text = {"id": self.node, "name": _cut(self.name), "cluster": self.cluster, "v": str(self.version)}
        if self.join_port is not None:
            text["join"] = str(self.join_port)
        return text


def read_advert(txt: Mapping[bytes, bytes | None], control_port: int | None) -> Advert | None:
    """The advert in a record from the network; None for anything that no node of ours would write."""
    node = _text(txt, b"id")
    name = _text(txt, b"name")
    cluster = _text(txt, b"cluster")
    version = _number(txt, b"v")
    if not node or name is None or cluster is None or version is None or control_port is None:
        return None
    join_port = _number(txt, b"join")
    try:
        return Advert(NodeId(node), name, cluster, control_port, join_port, version)
    except ValueError:
        return None


def _text(txt: Mapping[bytes, bytes | None], key: bytes) -> str | None:
    value = txt.get(key)
    if value is None or len(value) > TEXT_BYTES_MAX:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None  # a name with control characters would write on terminals


def _number(txt: Mapping[bytes, bytes | None], key: bytes) -> int | None:
    text = _text(txt, key)
    if not text or len(text) > NUMBER_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def _is_word(text: str) -> bool:
    return 0 < len(text) <= TEXT_BYTES_MAX and text.isascii() and text.isprintable() and " " not in text


def _cut(name: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in name)
    return printable.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
