"""The join door over real sockets: who is let in, who is not, and that nothing is told to the wrong door."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ringleader.errors import BadRequest, NodeUnreachable, NotTrusted
from ringleader.net import door as door_module
from ringleader.net.door_wire import (
    DOOR_REQUEST_BYTES_MAX,
    pinned_context,
    read_message,
    server_context,
    server_name,
    write_message,
)
from ringleader.net.joining import join, list_members, rotate, say_goodbye
from ringleader.trust.authority import certificate_request, check_issued, new_key
from ringleader.trust.cluster import forget, open_membership
from ringleader.trust.credentials import Credentials, load, new_id
from ringleader.trust.members import read_members
from ringleader.trust.revocations import load_list
from ringleader.v1 import join_pb2 as pb
from ringleader.wire import PROTOCOL_VERSION
from tests.security.clusters import Cluster, make_cluster
from tests.security.ports import Door, greet, knock, listening, open_door


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path)


def place(tmp_path: Path, name: str) -> Path:
    return tmp_path / name / "cluster"


async def test_who_is_invited_joins_and_speaks_with_members(cluster: Cluster, tmp_path: Path) -> None:
    b = cluster.member("b")
    forget(cluster.founder.directory, "b")
    async with open_door(cluster.founder) as door, listening(cluster.founder) as port:
        member = await join(str(door.invite()), place(tmp_path, "mini"), "mac-mini")
        check_issued(member)
        assert load(member.directory) == member
        assert member.cluster == cluster.founder.cluster
        assert member.peers == ("127.0.0.1:52416",)
        assert load_list(member).nodes == {b.node}, "it knows at once who is revoked"
        assert await greet(port.address, member, cluster.founder.node) == ""
        assert [each.name for each in read_members(cluster.founder.directory)] == ["founder", "b", "mac-mini"]
        assert door.said == []


async def test_a_member_that_is_given_its_token_again_just_stays(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door:
        token = str(door.invite())
        member = await join(token, place(tmp_path, "mini"), "mac-mini")
        assert await join(token, place(tmp_path, "mini"), "mac-mini") == member


async def test_an_expired_a_reused_and_an_unknown_token_let_nobody_in(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door:
        used = door.invite()
        await join(str(used), place(tmp_path, "first"), "first")
        expired = door.invite(ttl_s=60, now=time.time() - 61)
        unknown = replace(used, secret=secrets.token_bytes(16))
        for invitation, why in ((used, "used already"), (expired, "expired"), (unknown, "not known")):
            with pytest.raises(NotTrusted, match=why):
                await join(str(invitation), place(tmp_path, "second"), "second")
        assert load(place(tmp_path, "second")) is None
        assert len(read_members(cluster.founder.directory)) == 2
        assert len(door.said) == 3


async def test_of_two_that_join_with_one_token_at_once_one_gets_in(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door:
        token = str(door.invite())
        tries = [join(token, place(tmp_path, f"n{i}"), f"n{i}") for i in range(6)]
        results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, Credentials) for each in results) == 1
    assert sum(isinstance(each, NotTrusted) for each in results) == 5
    assert len(read_members(cluster.founder.directory)) == 2


async def test_a_request_that_is_played_again_is_refused(cluster: Cluster) -> None:
    async with open_door(cluster.founder) as door:
        request = join_request(door, uses=5)
        assert (await ask(door, request)).certificate
        again = await ask(door, request)
        assert not again.certificate
        other = pb.DoorRequest()
        other.CopyFrom(request)
        other.join.node = new_id()
        assert (await ask(door, other)).refused == "this very request was made before"
        assert len(read_members(cluster.founder.directory)) == 2


async def test_nobody_joins_under_the_id_of_a_member_or_of_a_revoked_node(cluster: Cluster) -> None:
    b = cluster.member("b")
    forget(cluster.founder.directory, "b")
    async with open_door(cluster.founder) as door:
        for node in (cluster.founder.node, b.node):
            request = join_request(door)
            request.join.node = node
            reply = await ask(door, request)
            assert "was let in before" in reply.refused
            assert not reply.certificate
        for text in ("", "x", "../../etc", new_id() + "0"):
            request = join_request(door)
            request.join.node = text
            assert (await ask(door, request)).refused


async def test_another_version_is_refused_by_name_by_either_end(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(cluster.founder) as door:
        request = join_request(door)
        request.version = PROTOCOL_VERSION + 1
        said = (await ask(door, request)).refused
        assert f"protocol {PROTOCOL_VERSION}, the visitor {PROTOCOL_VERSION + 1}: update the older one" in said
        token = str(door.invite())
        monkeypatch.setattr(door_module, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
        with pytest.raises(NotTrusted, match=f"speaks protocol {PROTOCOL_VERSION + 1}, this node {PROTOCOL_VERSION}"):
            await join(token, place(tmp_path, "mini"), "mac-mini")
        monkeypatch.undo()
        await join(token, place(tmp_path, "mini"), "mac-mini")  # the invitation is still good


async def test_a_member_renews_lists_and_leaves_and_is_refused_then(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door, listening(cluster.founder) as port:
        member = await join(str(door.invite()), place(tmp_path, "mini"), "mac-mini")
        renewed = await rotate(member)
        assert renewed.key != member.key
        assert load(member.directory) == renewed
        assert await greet(port.address, renewed) == ""
        assert [each.name for each in await list_members(renewed)] == ["founder", "mac-mini"]
        await say_goodbye(renewed)
        assert load_list(cluster.founder).nodes == {member.node}
        for ask_again in (rotate, list_members, say_goodbye):
            with pytest.raises(NotTrusted, match="was revoked"):
                await ask_again(renewed)


async def test_a_stranger_can_neither_renew_nor_list_nor_revoke(cluster: Cluster, tmp_path: Path) -> None:
    other = make_cluster(tmp_path / "other").member("x")
    csr = certificate_request(cluster.founder.node, new_key())
    requests = [
        pb.DoorRequest(version=PROTOCOL_VERSION, renew=pb.Renew(csr=csr)),
        pb.DoorRequest(version=PROTOCOL_VERSION, list=pb.ListMembers()),
        pb.DoorRequest(version=PROTOCOL_VERSION, leave=pb.Leave()),
        pb.DoorRequest(version=PROTOCOL_VERSION),
    ]
    async with open_door(cluster.founder) as door:
        for request in requests:
            assert "only a member" in (await ask(door, request)).refused
        context = pinned_context(cluster.founder.authority, other)  # with a certificate, but of another cluster
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await ask(door, requests[1], context)


@asynccontextmanager
async def false_door(context: ssl.SSLContext, authority: bytes, heard: list[bytes]) -> AsyncIterator[int]:
    """A door that shows a certificate of its own choice and keeps what it is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await write_message(writer, pb.Greeting(version=PROTOCOL_VERSION, authority=authority))
            heard.append(await reader.read(65_536))
        except OSError:
            heard.append(b"")
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("claims_ours", [False, True])
async def test_nothing_is_sent_to_a_door_that_is_not_the_one_of_the_token(
    cluster: Cluster, tmp_path: Path, claims_ours: bool
) -> None:
    """It shows another authority, or the right authority's certificate beside a server certificate of another."""
    other = make_cluster(tmp_path / "other").founder
    heard: list[bytes] = []
    authority = cluster.founder.authority if claims_ours else other.authority
    async with open_door(cluster.founder) as door, false_door(server_context(other), authority, heard) as port:
        invitation = replace(door.invite(), addresses=(f"127.0.0.1:{port}",))
        with pytest.raises(NotTrusted, match="not a node of this cluster" if claims_ours else "nothing was sent"):
            await join(str(invitation), place(tmp_path, "mini"), "mac-mini")
        assert heard
        assert not any(heard)
        both = replace(invitation, addresses=(f"127.0.0.1:{port}", door.address))
        if not claims_ours:
            await join(str(both), place(tmp_path, "mini"), "mac-mini")  # the right one is found behind it


async def test_a_founder_that_is_away_is_said_to_be_away(cluster: Cluster, tmp_path: Path) -> None:
    async with open_door(cluster.founder) as door:
        invitation = door.invite()
    with pytest.raises(NodeUnreachable, match="is it running"):
        await join(str(invitation), place(tmp_path, "mini"), "mac-mini")
    with pytest.raises(BadRequest):
        await join("rl1-nonsense", place(tmp_path, "mini"), "mac-mini")


async def test_a_cluster_of_one_is_given_up_for_an_invitation_and_one_with_members_is_not(
    cluster: Cluster, tmp_path: Path
) -> None:
    alone = open_membership(place(tmp_path, "alone"), "alone", time.time())
    busy = make_cluster(tmp_path / "busy")
    busy.member("x")
    async with open_door(cluster.founder) as door:
        with pytest.raises(NotTrusted, match="not known"):
            await join(str(door.invite(now=0.0)), alone.directory, "alone")
        assert load(alone.directory) == alone, "a refusal changes nothing"
        joined = await join(str(door.invite()), alone.directory, "alone")
        assert joined.cluster == cluster.founder.cluster
        assert joined.node != alone.node
        with pytest.raises(NotTrusted, match="ringleader cluster leave first"):
            await join(str(door.invite()), busy.founder.directory, "busy")


async def test_a_message_that_claims_to_be_huge_is_refused_unread(cluster: Cluster) -> None:
    async with open_door(cluster.founder) as door:
        context = pinned_context(cluster.founder.authority)
        for size in (DOOR_REQUEST_BYTES_MAX + 1, 0xFFFFFFFF):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", door.port, ssl=context, server_hostname=server_name(cluster.founder.cluster)
            )
            await read_message(reader, pb.Greeting)
            writer.write(size.to_bytes(4, "big") + bytes(100))
            assert "bytes, where" in (await read_message(reader, pb.DoorReply)).refused
            writer.close()


async def test_a_crowd_at_the_door_is_turned_away_and_gone_in_seconds(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "HANDSHAKE_DEADLINE_S", 0.4)
    async with open_door(cluster.founder) as door:
        crowd = [knock(door.port, b"", stay_s=0.6) for _ in range(door_module.VISITORS_MAX + 20)]
        await asyncio.gather(*crowd)
        await join(str(door.invite()), place(tmp_path, "mini"), "mac-mini")
        assert "refused a visitor of the join door: too many are there at once" in door.said


def join_request(door: Door, uses: int = 1) -> pb.DoorRequest:
    node, key = new_id(), new_key()
    secret, nonce = door.invite(uses).secret, secrets.token_bytes(16)
    asked = pb.Join(node=node, name="x", secret=secret, nonce=nonce, csr=certificate_request(node, key))
    return pb.DoorRequest(version=PROTOCOL_VERSION, join=asked)


async def ask(door: Door, request: pb.DoorRequest, context: ssl.SSLContext | None = None) -> pb.DoorReply:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        door.port,
        ssl=context or pinned_context(door.founder.authority),
        server_hostname=server_name(door.founder.cluster),
    )
    try:
        await read_message(reader, pb.Greeting)
        await write_message(writer, request)
        return await read_message(reader, pb.DoorReply)
    finally:
        writer.close()
