"""The founder's book of who was let in. It is for people and for refusing an id twice; certificates are what counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringleader.errors import NotTrusted
from ringleader.trust.credentials import ID
from ringleader.trust.private_files import locked, read_json, write_json
from ringleader.values import NodeId

MEMBERS_FILE = "members.json"
MEMBERS_MAX = 1000
NAME_CHARACTERS_MAX = 63


@dataclass(frozen=True, slots=True)
class Member:
    """One line of the book. `since` is Unix time; a revoked member stays in the book."""

    node: NodeId
    name: str
    since: float
    revoked: bool = False
    founder: bool = False


def read_members(directory: Path) -> tuple[Member, ...]:
    """All members in the order in which they came."""
    return tuple(
        Member(NodeId(node), str(each["name"]), float(each["since"]), bool(each["revoked"]), bool(each["founder"]))
        for node, each in _read(directory).items()
    )


def add_member(directory: Path, member: Member) -> None:
    """Write a member down. Raises NotTrusted when the id is in the book already, or the book is full."""
    with locked(directory):
        book = _read(directory)
        if member.node in book:
            raise NotTrusted(
                f"node {member.node} is known here already: run ringleader cluster leave on it, then join again"
            )
        if len(book) >= MEMBERS_MAX:
            raise NotTrusted(f"the cluster has let in {MEMBERS_MAX} nodes and lets in no more")
        book[member.node] = {
            "name": printable(member.name),
            "since": member.since,
            "revoked": member.revoked,
            "founder": member.founder,
        }
        write_json(directory / MEMBERS_FILE, book)


def mark_revoked(directory: Path, node: NodeId) -> None:
    """Say in the book that a node was revoked; an unknown one is no error."""
    with locked(directory):
        book = _read(directory)
        if node in book:
            book[node]["revoked"] = True
            write_json(directory / MEMBERS_FILE, book)


def find_member(directory: Path, text: str) -> Member:
    """The member that `text` names: an id, or a name that one live member alone has. Raises NotTrusted.

    An id that is not in this book is taken too: a node to which the authority's key was copied has a book of its own.
    """
    members = read_members(directory)
    found = [each for each in members if each.node == text]
    found = found or [each for each in members if each.name == text and not each.revoked]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotTrusted(f"several nodes are called {text}: say the id, one of {', '.join(m.node for m in found)}")
    if ID.fullmatch(text):
        return Member(NodeId(text), text, 0.0)
    raise NotTrusted(f"no node {text!r} was let in here; ringleader cluster nodes lists those that were")


def printable(name: str) -> str:
    """A name that somebody sent, fit to be printed and logged."""
    return "".join(c for c in name if c.isprintable())[:NAME_CHARACTERS_MAX] or "?"


def _read(directory: Path) -> dict[str, Any]:
    return read_json(directory / MEMBERS_FILE) or {}
