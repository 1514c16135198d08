"""Clusters for tests: a founder and members with real certificates, in directories of their own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ringleader.trust.authority import key_to_pem, load_authority, new_key
from ringleader.trust.cluster import open_membership, replace_membership
from ringleader.trust.credentials import Credentials, new_id
from ringleader.trust.members import Member, add_member


@dataclass(frozen=True, slots=True)
class Cluster:
    """A founder; `member` lets in another node as the join door would, without the door."""

    root: Path
    founder: Credentials

    def member(self, name: str) -> Credentials:
        node, key = new_id(), new_key()
        credentials = Credentials(
            node=node,
            cluster=self.founder.cluster,
            name=self.founder.name,
            authority=self.founder.authority,
            certificate=load_authority(self.founder.directory).issue(node, key.public_key()),
            key=key_to_pem(key),
            directory=self.root / name / "cluster",
        )
        replace_membership(credentials)
        add_member(self.founder.directory, Member(node, name, time.time()))
        return credentials


def make_cluster(root: Path, founder: str = "founder") -> Cluster:
    """A new cluster; all are called "home", as people's are."""
    return Cluster(root, open_membership(root / founder / "cluster", founder, time.time()))
