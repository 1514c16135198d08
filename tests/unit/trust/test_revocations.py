from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ringleader.errors import NotTrusted
from ringleader.trust import revocations
from ringleader.trust.authority import AUTHORITY_KEY_FILE
from ringleader.trust.cluster import forget
from ringleader.trust.revocations import REVOCATIONS_FILE, RevokedNodes, accept, load_list, read_list
from tests.security.clusters import make_cluster


def test_a_list_grows_and_is_taken_by_members_that_know_an_older_one_only(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    b, c, d = (cluster.member(name) for name in "bcd")
    _, first = forget(cluster.founder.directory, "c")
    _, second = forget(cluster.founder.directory, d.node)
    assert (first.number, second.number) == (1, 2)
    assert second.nodes == {c.node, d.node}
    assert accept(b, bytes(second)) == second
    assert accept(b, bytes(first)) is None, "an older list must not bring a node back"
    assert accept(b, bytes(second)) is None
    assert accept(b, b"") is None
    assert load_list(b) == second


def test_a_list_that_the_authority_did_not_sign_is_refused(tmp_path: Path) -> None:
    ours, theirs = make_cluster(tmp_path / "1"), make_cluster(tmp_path / "2")
    b = ours.member("b")
    theirs.member("x")
    _, foreign = forget(theirs.founder.directory, "x")
    ours.member("c")
    _, good = forget(ours.founder.directory, "c")
    outer = json.loads(bytes(good))
    emptied = json.dumps({**json.loads(outer["list"]), "nodes": [], "number": 99})
    for data in (
        bytes(foreign),
        json.dumps({**outer, "list": emptied}).encode(),
        json.dumps({**outer, "signature": "00"}).encode(),
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        bytes(revocations.REVOCATIONS_BYTES_MAX + 1),
    ):
        with pytest.raises(NotTrusted):
            accept(b, data)
    assert load_list(b).number == 0


def test_a_signed_list_of_another_cluster_with_the_same_authority_is_refused(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    cluster.member("b")
    _, listed = forget(cluster.founder.directory, "b")
    with pytest.raises(NotTrusted, match="another cluster"):
        read_list(bytes(listed), "00" * 8, cluster.founder.authority)


def test_two_holders_of_the_key_that_revoke_at_once_lose_neither_revocation(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    other, b, c = (cluster.member(name) for name in ("other", "b", "c"))
    shutil.copy(cluster.founder.directory / AUTHORITY_KEY_FILE, other.directory)
    _, here = forget(cluster.founder.directory, "b")
    _, there = forget(other.directory, c.node)
    joined = accept(cluster.founder, bytes(there))
    assert joined is not None
    assert joined.nodes == {b.node, c.node}
    assert accept(other, bytes(joined)) == joined
    assert accept(cluster.founder, bytes(here)) is None


def test_a_running_node_sees_what_another_process_revokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocations, "LOOK_AGAIN_S", 0.0)
    cluster = make_cluster(tmp_path)
    b, c = cluster.member("b"), cluster.member("c")
    revoked = RevokedNodes(cluster.founder)
    assert b.node not in revoked
    forget(cluster.founder.directory, "b")
    assert b.node in revoked
    forget(cluster.founder.directory, "c")
    assert c.node in revoked
    (cluster.founder.directory / REVOCATIONS_FILE).unlink()
    assert b.node in revoked, "a list that vanishes lets nobody back in"


def test_a_list_that_was_tampered_with_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    b = cluster.member("b")
    forget(cluster.founder.directory, "b")
    path = cluster.founder.directory / REVOCATIONS_FILE
    path.write_bytes(path.read_bytes().replace(b.node.encode(), b"0" * 16))
    with pytest.raises(NotTrusted, match="not signed"):
        b.node in RevokedNodes(cluster.founder)  # noqa: B015  # asking is what raises
