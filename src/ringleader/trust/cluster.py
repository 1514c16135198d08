"""A cluster's life on this machine: made by its first node, changed by its founder, left by a member."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ringleader.errors import NotTrusted
from ringleader.trust.authority import (
    AUTHORITY_KEY_FILE,
    check_issued,
    has_authority,
    key_to_pem,
    load_authority,
    new_authority,
    new_key,
)
from ringleader.trust.credentials import Credentials, erase, load, new_id, node_id, store
from ringleader.trust.invitations import INVITATIONS_FILE
from ringleader.trust.members import (
    MEMBERS_FILE,
    Member,
    add_member,
    find_member,
    mark_revoked,
    printable,
    read_members,
)
from ringleader.trust.private_files import locked, write_private
from ringleader.trust.revocations import REVOCATIONS_FILE, Revocations, revoke

CLUSTER_NAME = "home"


def open_membership(directory: Path, name: str, now: float, cluster_name: str = CLUSTER_NAME) -> Credentials:
    """This node's membership; a machine that has none makes a cluster, of which it is the founder.

    `name` is this node's, `now` Unix time. Raises NotTrusted when what is there cannot be used.
    """
    return load(directory) or _found(directory, name, now, cluster_name)


def _found(directory: Path, name: str, now: float, cluster_name: str) -> Credentials:
    node = node_id(directory)
    with locked(directory):
        if (raced := load(directory)) is not None:
            return raced
        authority = new_authority(new_id())
        key = new_key()
        credentials = Credentials(
            node=node,
            cluster=authority.cluster,
            name=printable(cluster_name),
            authority=authority.pem,
            certificate=authority.issue(node, key.public_key()),
            key=key_to_pem(key),
            directory=directory,
        )
        _set_aside(directory, now)
        write_private(directory / AUTHORITY_KEY_FILE, key_to_pem(authority.key))
        store(credentials)
    add_member(directory, Member(node, name, now, founder=True))
    return credentials


def _set_aside(directory: Path, now: float) -> None:
    """What an older cluster's founder kept here, whose membership was lost: no part of the new one, never deleted."""
    for name in (AUTHORITY_KEY_FILE, MEMBERS_FILE, INVITATIONS_FILE, REVOCATIONS_FILE):
        if (directory / name).exists():
            (directory / name).rename(directory / f"{name}.{now:.0f}")


def forget(directory: Path, who: str) -> tuple[Member, Revocations]:
    """Revoke a member, by id or name, on the founder. Raises NotTrusted when it is unknown, or the founder itself."""
    authority = load_authority(directory)
    member = find_member(directory, who)
    credentials = load(directory)
    assert credentials is not None
    if member.node == credentials.node:
        raise NotTrusted("this node holds the cluster's keys and cannot forget itself; ringleader cluster leave can")
    revocations = revoke(credentials, authority, member.node)
    mark_revoked(directory, member.node)
    return member, revocations


def is_alone(directory: Path) -> bool:
    """Whether this node made its cluster and nobody else has been let in, or nobody is left."""
    return has_authority(directory) and sum(not each.revoked for each in read_members(directory)) <= 1


def leave(directory: Path, *, even_as_founder: bool = False) -> None:
    """Delete this node's membership, keys and id; its models stay.

    Raises NotTrusted on a founder that others depend on, unless told to go all the same: nobody could be let in or
    forgotten any more.
    """
    if has_authority(directory) and not is_alone(directory) and not even_as_founder:
        raise NotTrusted(
            "this node holds the cluster's keys: without it nobody can be invited or forgotten any more. "
            f"Copy {directory / AUTHORITY_KEY_FILE} to another member first, or say --dissolve"
        )
    with locked(directory):
        erase(directory)


def rotate_founder(directory: Path) -> Credentials:
    """A new key and certificate for the founder itself. Raises NotTrusted on another node."""
    authority, credentials = load_authority(directory), load(directory)
    assert credentials is not None
    key = new_key()
    return renew(credentials, authority.issue(credentials.node, key.public_key()), key_to_pem(key))


def replace_membership(credentials: Credentials) -> None:
    """Keep a new membership in place of whatever was there. Raises NotTrusted when its certificate is not its own."""
    check_issued(credentials)
    with locked(credentials.directory):
        erase(credentials.directory, credentials.node)
        store(credentials)


def renew(credentials: Credentials, certificate: bytes, key: bytes) -> Credentials:
    """Keep a new certificate and key in place of the old ones. Raises NotTrusted when they are not this node's."""
    renewed = replace(credentials, certificate=certificate, key=key)
    check_issued(renewed)
    with locked(credentials.directory):
        store(renewed)
    return renewed
