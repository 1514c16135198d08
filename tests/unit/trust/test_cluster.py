from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ringleader.errors import NotTrusted
from ringleader.trust.authority import AUTHORITY_KEY_FILE, check_issued, has_authority, key_to_pem, new_key
from ringleader.trust.cluster import forget, is_alone, leave, open_membership, renew, rotate_founder
from ringleader.trust.credentials import MEMBERSHIP_FILE, load, node_id, read_term, write_term
from ringleader.trust.members import read_members
from ringleader.trust.revocations import load_list
from tests.security.clusters import make_cluster


def test_the_first_start_makes_a_cluster_and_the_next_ones_keep_it(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    made = open_membership(directory, "studio", now=5.0)
    check_issued(made)
    assert made.node == node_id(directory)
    assert has_authority(directory)
    assert open_membership(directory, "renamed", now=9.0) == made
    assert [(m.name, m.since, m.founder) for m in read_members(directory)] == [("studio", 5.0, True)]


def test_a_key_whose_membership_was_lost_is_set_aside_and_not_overwritten(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    old = open_membership(directory, "studio", now=5.0)
    forget(directory, "0" * 16)
    key = (directory / AUTHORITY_KEY_FILE).read_bytes()
    (directory / MEMBERSHIP_FILE).unlink()
    new = open_membership(directory, "studio", now=9.0)
    assert (new.node, load_list(new).number) == (old.node, 0)
    assert [each.since for each in read_members(directory)] == [9.0]
    assert (directory / f"{AUTHORITY_KEY_FILE}.9").read_bytes() == key
    assert (directory / AUTHORITY_KEY_FILE).read_bytes() != key


def test_two_first_starts_at_once_make_one_cluster(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: open_membership(tmp_path / "cluster", "a", now=0.0), range(4)))
    assert len({each.cluster for each in made}) == 1


def test_the_founder_forgets_members_but_not_itself(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    b = cluster.member("b")
    assert not is_alone(cluster.founder.directory)
    member, listed = forget(cluster.founder.directory, "b")
    assert member.node == b.node
    assert listed.nodes == {b.node}
    assert is_alone(cluster.founder.directory)
    with pytest.raises(NotTrusted, match="cannot forget itself"):
        forget(cluster.founder.directory, "founder")
    with pytest.raises(NotTrusted, match="only the node that made"):
        forget(b.directory, "founder")


def test_who_leaves_keeps_its_term_and_its_models_and_gets_a_new_id(tmp_path: Path) -> None:
    b = make_cluster(tmp_path).member("b")
    models = b.directory.parent / "models"
    models.mkdir()
    write_term(b.directory, 12)
    (b.directory / "running.lock").touch(0o600)  # a node that runs holds it: another must not take its place
    leave(b.directory)
    assert load(b.directory) is None
    assert node_id(b.directory) != b.node
    assert read_term(b.directory) == 12
    assert models.is_dir()
    assert sorted(path.name for path in b.directory.iterdir()) == [".lock", "node.json", "running.lock"]


def test_a_founder_that_others_need_does_not_leave_by_mistake(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    cluster.member("b")
    with pytest.raises(NotTrusted, match=r"holds the cluster's keys.*--dissolve"):
        leave(cluster.founder.directory)
    assert load(cluster.founder.directory) == cluster.founder
    leave(cluster.founder.directory, even_as_founder=True)
    assert not has_authority(cluster.founder.directory)


def test_a_renewed_key_replaces_the_old_one_and_a_foreign_one_does_not(tmp_path: Path) -> None:
    founder = make_cluster(tmp_path).founder
    renewed = rotate_founder(founder.directory)
    assert renewed.key != founder.key
    assert load(founder.directory) == renewed
    with pytest.raises(NotTrusted, match="key"):
        renew(renewed, renewed.certificate, key_to_pem(new_key()))
    assert load(founder.directory) == renewed
