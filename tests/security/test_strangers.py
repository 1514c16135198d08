"""Who is not of the cluster, or no longer, is refused at every gRPC port: no effect, a line in the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from ringleader.errors import NotTrusted
from ringleader.trust import guard, revocations
from ringleader.trust.authority import key_to_pem, new_authority, new_key
from ringleader.trust.channels import open_channel
from ringleader.trust.cluster import forget
from ringleader.trust.credentials import Credentials, new_id
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.wire import RING_MESSAGE_BYTES_MAX
from tests.security.clusters import Cluster, make_cluster
from tests.security.ports import OPTIONS, Listening, greet, greet_by, listening


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path)


async def test_members_hear_each_other_and_know_who_speaks(cluster: Cluster) -> None:
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        assert await greet(port.address, b) == ""
        assert await greet(port.address, b, cluster.founder.node) == ""
        assert port.heard == [b.node, b.node]
        assert port.said == []


async def test_a_stranger_without_a_certificate_is_refused(cluster: Cluster) -> None:
    async with listening(cluster.founder) as port:
        tls = grpc.ssl_channel_credentials(cluster.founder.authority)
        name = f"{cluster.founder.cluster}.ringleader"
        options = [*OPTIONS, ("grpc.ssl_target_name_override", name)]
        async with grpc.aio.secure_channel(port.address, tls, options=options) as channel:
            assert (await greet_by(channel)).startswith("UNAVAILABLE")
        assert (await greet(port.address, None)).startswith("UNAVAILABLE"), "nor in the clear"
        assert port.heard == []


async def test_a_node_of_another_cluster_with_the_same_name_is_refused_by_both_ends(
    cluster: Cluster, tmp_path: Path
) -> None:
    other = make_cluster(tmp_path / "other").member("b")
    assert other.name == cluster.founder.name
    believing = replace(other, authority=cluster.founder.authority, cluster=cluster.founder.cluster)
    async with listening(cluster.founder) as port:
        assert (await greet(port.address, other)).startswith("UNAVAILABLE")
        assert (await greet(port.address, believing)).startswith("UNAVAILABLE")
        assert port.heard == []
    async with listening(other) as port:
        assert "UNAVAILABLE" in await greet(port.address, cluster.member("c"))
        assert port.heard == []


async def test_a_member_cannot_take_the_place_of_another(cluster: Cluster) -> None:
    b, c = cluster.member("b"), cluster.member("c")
    async with listening(b) as port:
        assert "Hostname Verification" in await greet(port.address, cluster.founder, c.node)
        assert port.heard == []


async def test_a_certificate_that_a_member_issued_is_worth_nothing(cluster: Cluster) -> None:
    b, node, key = cluster.member("b"), new_id(), new_key()
    fake = new_authority(cluster.founder.cluster)
    forged = replace(b, node=node, certificate=fake.issue(node, key.public_key()), key=key_to_pem(key))
    async with listening(cluster.founder) as port:
        assert (await greet(port.address, forged)).startswith("UNAVAILABLE")
        assert port.heard == []


async def test_a_certificate_of_this_authority_without_a_nodes_name_is_refused(cluster: Cluster) -> None:
    """Nothing issues such a one; the guard does not depend on that."""
    from ringleader.trust.authority import load_authority

    b, key = cluster.member("b"), new_key()
    authority = replace(load_authority(cluster.founder.directory), cluster="00" * 8)
    odd = replace(b, certificate=authority.issue(b.node, key.public_key()), key=key_to_pem(key))
    async with listening(cluster.founder) as port:
        assert (await greet(port.address, odd)).startswith("PERMISSION_DENIED")
        assert port.heard == []
        assert port.said == ["refused a caller whose certificate is not this cluster's"]


async def test_a_revoked_node_is_refused_and_told_so_and_logged_once(cluster: Cluster) -> None:
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        forget(cluster.founder.directory, "b")
        for _ in range(20):
            assert (await greet(port.address, b)).startswith("PERMISSION_DENIED: refused: node")
        assert port.heard == []
        assert port.said == [f"refused node {b.node}: it was revoked"]


async def test_a_revoked_node_is_not_dialled(cluster: Cluster) -> None:
    b = cluster.member("b")
    forget(cluster.founder.directory, "b")
    async with listening(b) as port:
        with pytest.raises(NotTrusted, match="was revoked"):
            await greet(port.address, cluster.founder, b.node)
        assert port.heard == []


async def test_a_node_that_is_revoked_in_the_middle_of_a_stream_is_cut_off(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocations, "LOOK_AGAIN_S", 0.0)
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        async with open_channel(port.address, OPTIONS, b, cluster.founder.node) as channel:
            call = rpc.RingStub(channel).Pass()
            await call.write(pb.Frame(step=1))
            assert (await call.read()).step == 1
            forget(cluster.founder.directory, "b")
            await call.write(pb.Frame(step=2))
            async with asyncio.timeout(5):
                assert await call.code() == grpc.StatusCode.PERMISSION_DENIED
        assert port.frames == 1, "what it said after that has no effect"


async def test_while_nobody_can_tell_who_is_revoked_nobody_is_let_in(cluster: Cluster) -> None:
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        forget(cluster.founder.directory, "b")
        (cluster.founder.directory / revocations.REVOCATIONS_FILE).write_bytes(b"{}")
        assert "cannot be told" in await greet(port.address, b)
        assert port.heard == []


async def test_an_oversized_message_is_refused_and_the_connection_goes_on(cluster: Cluster) -> None:
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        roomy = [("grpc.max_send_message_length", -1)]
        async with open_channel(port.address, roomy, b) as channel:
            call = rpc.RingStub(channel).Pass()
            await call.write(pb.Frame(step=1, tensor=bytes(RING_MESSAGE_BYTES_MAX + 1)))
            assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await greet_by(channel) == ""
        assert port.frames == 0


async def test_strangers_are_logged_together_and_members_are_not_counted_among_them(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "COUNT_AFTER_S", 0.5)
    other: Credentials = make_cluster(tmp_path / "other").founder
    b = cluster.member("b")
    async with listening(cluster.founder) as port:
        for _ in range(3):
            await greet(port.address, other)
            assert await greet(port.address, b) == ""
        await _said(port, 1)
        assert len(port.said) == 1
        assert f"connections to {port.address} that did not prove to be of this cluster" in port.said[0]


async def _said(port: Listening, lines: int) -> None:
    async with asyncio.timeout(5):
        while len(port.said) < lines:  # noqa: ASYNC110  # the guard's log is a plain list
            await asyncio.sleep(0.02)
