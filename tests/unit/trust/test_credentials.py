from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.errors import NotTrusted
from ringleader.trust.credentials import (
    MEMBERSHIP_FILE,
    PROOF_FILE,
    load,
    member_name,
    node_id,
    node_name,
    node_of,
    read_term,
    state_directory,
    write_term,
)
from ringleader.values import NodeId
from tests.security.clusters import make_cluster

CLUSTER, NODE = "00112233445566aa", NodeId("ffeeddccbbaa9988")


def test_a_nodes_id_is_made_once_and_kept(tmp_path: Path) -> None:
    first = node_id(tmp_path / "a")
    assert node_id(tmp_path / "a") == first
    assert node_id(tmp_path / "b") != first
    assert len(first) == 16


def test_a_term_is_kept_and_never_goes_back(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    node = node_id(directory)
    assert read_term(directory) == 0
    write_term(directory, 7)
    write_term(directory, 5)
    assert (read_term(directory), node_id(directory)) == (7, node)


def test_a_membership_is_read_back_as_it_was_made(tmp_path: Path) -> None:
    member = make_cluster(tmp_path).member("b")
    assert load(member.directory) == member
    assert load(tmp_path / "elsewhere") is None


def test_a_private_key_is_never_printed(tmp_path: Path) -> None:
    assert "PRIVATE" not in repr(make_cluster(tmp_path).founder)


@pytest.mark.parametrize("name", [PROOF_FILE, "authority.crt"])
def test_a_membership_with_a_missing_or_open_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    directory = make_cluster(tmp_path).founder.directory
    (directory / name).chmod(0o640)
    with pytest.raises(NotTrusted, match=rf"{name} is open to other users"):
        load(directory)
    (directory / name).unlink()
    with pytest.raises(NotTrusted, match=rf"{name} is missing"):
        load(directory)


@pytest.mark.parametrize("text", ["{}", '{"node": 1}', '{"node": "../x", "cluster": "", "name": "", "door": []}'])
def test_a_damaged_membership_is_refused(tmp_path: Path, text: str) -> None:
    directory = make_cluster(tmp_path).founder.directory
    (directory / MEMBERSHIP_FILE).write_text(text)
    with pytest.raises(NotTrusted, match="damaged"):
        load(directory)


def test_a_certificates_names_say_which_node_of_which_cluster_it_is() -> None:
    assert node_of([node_name(CLUSTER, NODE), member_name(CLUSTER)], CLUSTER) == NODE
    assert node_of([node_name("aa" * 8, NODE), member_name(CLUSTER)], CLUSTER) is None
    assert node_of([node_name(CLUSTER, NODE), node_name(CLUSTER, NodeId("0" * 16))], CLUSTER) is None
    assert node_of([node_name(CLUSTER, NodeId("evil.example"))], CLUSTER) is None
    assert node_of([f"{NODE}.{CLUSTER}.ringleader.example"], CLUSTER) is None
    assert node_of([], CLUSTER) is None


def test_the_state_directory_lies_beside_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGLEADER_HOME", str(tmp_path / "env"))
    assert state_directory() == tmp_path / "env" / "cluster"
    assert state_directory(tmp_path) == tmp_path / "cluster"
