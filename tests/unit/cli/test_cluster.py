"""`ringleader cluster` against real state directories, and a real join door where one is needed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ringleader.net.joining import join
from ringleader.trust.credentials import load
from ringleader.trust.invitations import read_token
from tests.security.clusters import Cluster, make_cluster
from tests.security.ports import open_door


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path, "studio")


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "ringleader", "cluster", *arguments, "--home", str(home)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


async def in_thread(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(command, home, *arguments)


async def test_from_the_invitation_to_the_farewell(cluster: Cluster, tmp_path: Path) -> None:
    studio, mini = tmp_path / "studio", tmp_path / "mini"
    async with open_door(cluster.founder) as door:
        invited = await in_thread(studio, "invite", "--ttl", "1h")
        assert invited.returncode == 0, invited.stderr
        assert "On the other machine, within 1 hour:" in invited.stderr
        assert invited.stdout.startswith("ringleader node --join rl1-")
        token = invited.stdout.split()[-1]
        assert read_token(token).addresses == (door.address,)
        member = await join(token, mini / "cluster", "mini")

        for home, here in ((studio, "studio"), (mini, "mini")):
            listed = await in_thread(home, "nodes")
            assert listed.returncode == 0, listed.stderr
            assert f"home ({member.cluster})" in listed.stdout
            assert [line.split()[0] for line in listed.stdout.splitlines()[2:]] == ["studio", "mini"]
            assert next(line for line in listed.stdout.splitlines() if "this machine" in line).startswith(here)

        rotated = await in_thread(mini, "rotate")
        assert rotated.returncode == 0, rotated.stderr
        renewed = load(member.directory)
        assert renewed is not None
        assert renewed.key != member.key

        left = await in_thread(mini, "leave")
        assert left.returncode == 0, left.stderr
        assert load(member.directory) is None
        listed = await in_thread(studio, "nodes", "--json")
        assert [(n["name"], n["revoked"], n["this"]) for n in json.loads(listed.stdout)["nodes"]] == [
            ("studio", False, True),
            ("mini", True, False),
        ]


def test_a_machine_without_a_cluster_is_told_how_to_get_one(tmp_path: Path) -> None:
    for arguments in (("nodes",), ("rotate",), ("leave",), ("invite",)):
        done = command(tmp_path, *arguments)
        assert done.returncode == 1
        assert "ringleader node" in done.stderr


def test_an_invitation_needs_the_founder_and_a_running_node(cluster: Cluster, tmp_path: Path) -> None:
    member = cluster.member("mini")
    assert "only the node that made the cluster" in command(member.directory.parent, "invite").stderr
    assert "start ringleader node first" in command(tmp_path / "studio", "invite").stderr
    told = command(tmp_path / "studio", "invite", "--address", "studio.local:52417", "--json")
    assert read_token(json.loads(told.stdout)["token"]).addresses == ("studio.local:52417",)
    assert "--ttl" in command(tmp_path / "studio", "invite", "--ttl", "soon", "--address", "a:1").stderr


def test_a_member_leaves_without_its_founder_and_says_what_is_left_to_do(cluster: Cluster) -> None:
    member = cluster.member("mini")
    done = command(member.directory.parent, "leave")
    assert done.returncode == 0
    assert f"ringleader cluster forget {member.node}" in done.stderr
    assert load(member.directory) is None


def test_the_founder_forgets_by_name_and_does_not_leave_by_mistake(cluster: Cluster, tmp_path: Path) -> None:
    cluster.member("mini")
    cluster.member("book")
    done = command(tmp_path / "studio", "leave")
    assert done.returncode == 1
    assert "--dissolve" in done.stderr
    done = command(tmp_path / "studio", "forget", "mini")
    assert done.returncode == 0
    assert done.stdout.startswith("mini (")
    assert command(tmp_path / "studio", "forget", "nobody").returncode == 1
    assert command(tmp_path / "studio", "leave", "--dissolve").returncode == 0


async def test_a_door_that_has_moved_is_found_when_it_is_told_and_remembered(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door:
        member = await join(str(door.invite()), tmp_path / "mini" / "cluster", "mini")
    mini = tmp_path / "mini"
    async with open_door(cluster.founder) as moved:
        lost = await in_thread(mini, "nodes")
        assert lost.returncode == 3
        assert "does not answer" in lost.stderr
        assert (await in_thread(mini, "nodes", "--door", "nonsense")).returncode == 1
        assert (await in_thread(mini, "rotate", "--door", moved.address)).returncode == 0
        assert (await in_thread(mini, "nodes")).returncode == 0
    renewed = load(member.directory)
    assert renewed is not None
    assert renewed.door == (moved.address,)


def test_a_node_with_a_state_of_its_own_is_named_by_it(cluster: Cluster, tmp_path: Path) -> None:
    listed = command(tmp_path / "elsewhere", "nodes", "--state", str(cluster.founder.directory))
    assert listed.returncode == 0, listed.stderr
    assert "studio" in listed.stdout
    lost = command(tmp_path / "elsewhere", "nodes")
    assert lost.returncode != 0
    assert "if it was started with --state, name the same folder here" in " ".join(lost.stderr.split())


def test_an_empty_invitation_does_not_make_a_cluster(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "ringleader", "node", "--join", "", "--state", str(tmp_path / "state")]
    said = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 2
    assert "--join is empty" in said.stderr
    assert not (tmp_path / "state").exists()
