from __future__ import annotations

import json
import logging
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ringleader.config import NodeOptions
from ringleader.errors import BadRequest, NodeUnreachable, NotTrusted
from ringleader.node.identity import identify
from ringleader.trust.authority import has_authority
from ringleader.trust.credentials import write_term
from tests.security.clusters import make_cluster
from tests.security.ports import open_door

pytestmark = pytest.mark.filterwarnings("error")


def clear(state: Path) -> NodeOptions:
    return NodeOptions(name="a", insecure=True, state=state)


async def test_a_node_keeps_its_id_and_its_term_over_restarts(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await identify(clear(tmp_path / "a"), stack)
        assert (first.term, first.credentials, first.peers) == (0, None, ())
        write_term(first.state, 7)
    async with AsyncExitStack() as stack:
        again = await identify(clear(tmp_path / "a"), stack)
    assert (again.node, again.term) == (first.node, 7)


async def test_each_start_is_a_greater_incarnation_even_when_the_clock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for clock in (time.time_ns(), 5, 0):
        monkeypatch.setattr("time.time_ns", lambda clock=clock: clock)
        async with AsyncExitStack() as stack:
            seen.append((await identify(clear(tmp_path / "a"), stack)).incarnation)
    assert seen[0] < seen[1] < seen[2]


async def test_two_processes_cannot_be_one_node(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await identify(clear(tmp_path / "a"), stack)
        async with AsyncExitStack() as other:
            with pytest.raises(NodeUnreachable, match="--state DIR"):
                await identify(clear(tmp_path / "a"), other)
            assert (await identify(clear(tmp_path / "b"), other)).node != first.node
    async with AsyncExitStack() as stack:
        assert (await identify(clear(tmp_path / "a"), stack)).node == first.node, "the directory is free again"


async def test_a_first_node_founds_a_cluster_and_finds_it_again(tmp_path: Path) -> None:
    options = NodeOptions(name="a", state=tmp_path / "a")
    async with AsyncExitStack() as stack:
        first = await identify(options, stack)
    assert first.credentials is not None
    assert first.node == first.credentials.node
    assert has_authority(first.state)
    async with AsyncExitStack() as stack:
        assert (await identify(options, stack)).credentials == first.credentials


async def test_a_node_that_joins_has_the_founder_s_cluster_and_its_peers(tmp_path: Path) -> None:
    founder = make_cluster(tmp_path).founder
    async with open_door(founder) as door, AsyncExitStack() as stack:
        options = NodeOptions(name="b", join=str(door.invite()), state=tmp_path / "b")
        found = await identify(options, stack)
    assert found.credentials is not None
    assert (found.credentials.cluster, found.peers) == (founder.cluster, found.credentials.peers)
    assert found.node == found.credentials.node != founder.node
    assert found.peers
    async with AsyncExitStack() as stack:  # without the invitation, which is used up
        again = await identify(NodeOptions(name="b", state=tmp_path / "b"), stack)
    assert (again.node, again.peers) == (found.node, found.peers)


async def test_an_invitation_that_is_no_good_leaves_the_directory_free(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(BadRequest, match="no invitation"):
            await identify(NodeOptions(name="b", join="nonsense", state=tmp_path / "b"), stack)
    async with AsyncExitStack() as stack:
        await identify(clear(tmp_path / "b"), stack)


async def test_a_node_without_encryption_says_so_at_each_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        async with AsyncExitStack() as stack:
            await identify(clear(tmp_path / "a"), stack)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len([each for each in warnings if "--insecure" in each]) == 2


def test_without_encryption_nobody_joins_and_nobody_listens_beyond_this_machine() -> None:
    with pytest.raises(BadRequest, match="leave --insecure out"):
        NodeOptions(name="a", insecure=True, join="x")
    with pytest.raises(BadRequest, match=r"on 127\.0\.0\.1 and ::1 only"):
        NodeOptions(name="a", insecure=True, host="192.168.1.5")


@pytest.mark.parametrize("name", ["node.json", "starts.json"])
async def test_a_state_directory_that_is_open_or_damaged_is_refused_by_name(tmp_path: Path, name: str) -> None:
    async with AsyncExitStack() as stack:
        state = (await identify(clear(tmp_path / "a"), stack)).state
    (state / name).write_text("no JSON")
    async with AsyncExitStack() as stack:
        with pytest.raises(NotTrusted, match=name):
            await identify(clear(state), stack)
    (state / name).write_text(json.dumps({}))
    (state / name).chmod(0o644)
    async with AsyncExitStack() as stack:
        with pytest.raises(NotTrusted, match="chmod"):
            await identify(clear(state), stack)
