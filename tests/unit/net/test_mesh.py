"""Nodes on loopback speak with each other, in the clear and by mutual TLS."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import pytest

from ringleader.net import line as line_room
from ringleader.net import mesh as room
from ringleader.net.addresses import resolve
from ringleader.trust.authority import load_authority
from ringleader.trust.channels import open_channel
from ringleader.trust.revocations import accept, load_list, revoke
from ringleader.v1 import control_pb2 as pb
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.values import NodeId
from ringleader.wire import CONTROL_MESSAGE_BYTES_MAX, PROTOCOL_VERSION
from tests.security.clusters import Cluster, make_cluster
from tests.unit.net.stations import HEARD_WITHIN_S, Station

FOUND_AGAIN_WITHIN_S = 2.5

Make = Callable[[str], Station]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path)


@pytest.fixture
async def stations() -> AsyncIterator[list[Station]]:
    """Whatever is put in here is closed; no task may be left then."""
    before = asyncio.all_tasks()
    made: list[Station] = []
    yield made
    for each in made:
        await each.close()
    known = {*before, asyncio.current_task()}
    await until(lambda: not asyncio.all_tasks() - known, 3)


@pytest.fixture(params=["clear", "tls"])
def make(request: pytest.FixtureRequest, tmp_path: Path, stations: list[Station]) -> Make:
    """Makes stations of one cluster, or in the clear."""
    cluster = make_cluster(tmp_path) if request.param == "tls" else None

    def one(name: str) -> Station:
        stations.append(Station(name, None if cluster is None else cluster.member(name)))
        return stations[-1]

    return one


def lines(station: Station) -> list[NodeId | None]:
    return [each.node for each in station.mesh._lines]


async def until(condition: Callable[[], bool], within_s: float = HEARD_WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- words


async def test_words_arrive_whole_and_in_order_with_who_said_them(make: Make) -> None:
    a, b, c = [await make(name).open() for name in "abc"]
    await asyncio.gather(a.meet(b), c.meet(b), b.meet(a))
    for number in range(50):
        a.mesh.send(b.node, b"a%d" % number)
        c.mesh.send(b.node, b"c%d" % number)
    b.mesh.send(a.node, b"\x00\xff any bytes")
    assert [await b.word(a) for _ in range(50)] == [b"a%d" % number for number in range(50)]
    assert [await b.word(c) for _ in range(50)] == [b"c%d" % number for number in range(50)]
    assert await a.word(b) == b"\x00\xff any bytes"


async def test_a_word_for_whom_there_is_no_line_is_dropped(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    a.mesh.send(b.node, b"too early")
    await a.meet(b)
    a.mesh.send(NodeId("nobody"), b"lost")
    a.mesh.send(b.node, b"heard")
    assert await b.word(a) == b"heard"


async def test_a_peer_that_reads_nothing_costs_a_bounded_queue_and_no_wait(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b)
    said = line_room.UNSENT_MAX + 50
    for number in range(said):  # no task runs meanwhile, so none is sent
        a.mesh.send(b.node, b"%d" % number)
    await asyncio.sleep(0)
    heard = [await b.word(a) for _ in range(line_room.UNSENT_MAX)]
    assert heard == [b"%d" % number for number in range(line_room.UNSENT_MAX)]
    a.mesh.send(b.node, b"later")
    assert await b.word(a) == b"later", "the rest was dropped"


async def test_the_last_words_are_read_before_a_node_that_says_farewell_hangs_up(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b)
    for number in range(line_room.UNSENT_MAX):
        a.mesh.send(b.node, b"x" * 10_000 + b"%d" % number)
    await a.mesh.farewell(HEARD_WITHIN_S)
    await a.close()
    heard = [await b.word(a) for _ in range(line_room.UNSENT_MAX)]
    assert heard[-1].endswith(b"%d" % (line_room.UNSENT_MAX - 1))
    assert await b.down() == (a.node, "it hung up")
    a.mesh.dial([b.address])
    assert lines(a) == []


# ---------------------------------------------------------------- who is dialled


async def test_whoever_answers_at_an_address_becomes_known_and_no_other_is_believed_there(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b, by_name=False)
    assert lines(a) == [b.node]
    a.mesh.send(b.node, b"hello")
    assert await b.word(a) == b"hello"


async def test_one_s_own_address_is_dropped_without_a_word(make: Make) -> None:
    a = await make("a").open()
    a.mesh.dial([a.address])
    await until(lambda: lines(a) == [])
    assert (a.ups.empty(), a.downs.empty(), a.log) == (True, True, [])


async def test_a_node_s_line_survives_that_its_address_is_said_to_be_ours(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    a.mesh.dial([a.address], b.node)
    await asyncio.sleep(0.3)
    assert lines(a) == [b.node]
    await a.meet(b)


async def test_two_ways_to_one_node_become_one_line_that_knows_both(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b)
    other = b.address.replace("127.0.0.1", "localhost")
    a.mesh.dial([other])
    a.mesh.dial([other])
    await until(lambda: lines(a) == [b.node])
    assert set(a.mesh._lines[0].addresses) == {b.address, other}
    a.mesh.dial([b.address], b.node)
    assert lines(a) == [b.node]
    assert a.downs.empty()


async def test_an_address_that_answers_makes_up_for_those_that_do_not(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    a.mesh.dial(["127.0.0.1:1", "nowhere.invalid:7000", b.address, "127.0.0.1:2"], b.node)
    assert await a.up() == b.node


async def test_a_better_address_is_dialled_at_once_while_the_old_one_leads_nowhere(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    a.mesh.dial(["127.0.0.1:1"], b.node)
    await asyncio.sleep(0.05)
    begun = time.monotonic()
    a.mesh.dial([b.address], b.node)
    assert await a.up() == b.node
    assert time.monotonic() - begun < line_room.DIAL_DEADLINE_S, "it did not wait for the old dial's end"


async def test_an_address_that_was_told_of_two_nodes_keeps_neither_from_being_dialled(make: Make) -> None:
    a, b, c = [await make(name).open() for name in "abc"]
    a.mesh.dial([b.address], c.node)
    a.mesh.dial([b.address], b.node)
    assert await a.up() == b.node
    a.mesh.dial([c.address], c.node)
    assert await a.up() == c.node


async def test_a_node_of_another_name_at_an_address_that_a_person_gave_is_found(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_room, "DIAL_DEADLINE_S", 0.5)
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b, by_name=False)
    await b.close()
    c = await make("c").open(int(b.address.rpartition(":")[2]))
    assert await a.up() == c.node
    assert lines(a) == [c.node]


# ---------------------------------------------------------------- what breaks


async def test_a_peer_that_ends_is_told_of_on_both_sides(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await asyncio.gather(a.meet(b), b.meet(a))
    await b.close()
    assert (await a.down())[0] == b.node
    a.mesh.send(b.node, b"to nobody")
    assert (await a.down())[0] == b.node, "its line to this node broke, too"


async def test_a_peer_that_restarts_is_found_again_soon(make: Make, stations: list[Station]) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b)
    port = int(b.address.rpartition(":")[2])
    for _ in range(2):
        await b.close()
        await a.down()
        await asyncio.sleep(0.7)
        b = Station("b", b.credentials)
        stations.append(b)
        await b.open(port)
        async with asyncio.timeout(FOUND_AGAIN_WITHIN_S):
            assert await a.up() == b.node
    a.mesh.send(b.node, b"again")
    assert await b.word(a) == b"again"


async def test_redialling_gives_every_line_up_and_has_it_back_at_once(make: Make) -> None:
    a, b, c = [await make(name).open() for name in "abc"]
    await a.meet(b)
    await a.meet(c)
    a.mesh.redial()
    assert {await a.down(), await a.down()} == {(b.node, "it is dialled anew"), (c.node, "it is dialled anew")}
    assert {await a.up(), await a.up()} == {b.node, c.node}
    a.mesh.send(b.node, b"over the new one")
    assert await b.word(a) == b"over the new one"


async def test_an_old_stream_that_ends_after_a_new_one_began_is_no_loss(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    old = await _speak(a, b)
    new = await _speak(a, b)
    old.cancel()
    await new.write(pb.MeshMessage(word=b"still here"))
    assert await b.word(a) == b"still here"
    await asyncio.sleep(0.1)
    assert b.downs.empty()
    new.cancel()
    assert (await b.down())[0] == a.node


async def test_a_word_that_is_too_long_is_not_sent_and_whoever_sends_it_all_the_same_is_cut_off(make: Make) -> None:
    a, b = await make("a").open(), await make("b").open()
    await a.meet(b)
    for extra in range(3):
        a.mesh.send(b.node, b"x" * (CONTROL_MESSAGE_BYTES_MAX + extra))
    assert len(a.log) == 1
    for extra in range(3):
        call = await _speak(a, b)
        await call.write(pb.MeshMessage(word=b"x" * (CONTROL_MESSAGE_BYTES_MAX + extra)))
        assert await _is_over(call)
    assert b.log == [f"refused node {a.node}: it sent a word that is too long"]
    a.mesh.send(b.node, b"short")
    assert await b.word(a) == b"short", "none of the long ones was heard"


async def test_a_fault_of_ours_in_a_try_is_logged_once_and_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await make("a").open(), await make("b").open()
    faults = [KeyError("bug"), KeyError("bug")]

    async def faulty(address: str) -> tuple[str, ...]:
        if faults:
            raise faults.pop()
        return await resolve(address)

    monkeypatch.setattr(line_room, "resolve", faulty)
    await a.meet(b)
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1


# ---------------------------------------------------------------- who is not heard


Call = grpc.aio.StreamStreamCall[pb.MeshMessage, pb.MeshGreeting]


async def _call(a: Station, b: Station) -> Call:
    """A stream from `a` to `b` by hand, before its hello."""
    channel = open_channel(b.address, [], a.credentials, b.node if b.credentials else None)
    call: Call = rpc.MeshStub(channel).Tell()
    return call


async def _is_over(call: Call) -> bool:
    return not isinstance(await asyncio.wait_for(call.read(), HEARD_WITHIN_S), pb.MeshGreeting)


async def _greeting(a: Station, b: Station, hello: pb.MeshMessage) -> tuple[pb.MeshGreeting, Call]:
    call = await _call(a, b)
    await call.write(hello)
    greeting = await asyncio.wait_for(call.read(), HEARD_WITHIN_S)
    assert isinstance(greeting, pb.MeshGreeting)
    return greeting, call


async def _speak(a: Station, b: Station) -> Call:
    """A stream by hand that `b` hears."""
    hello = pb.MeshMessage(hello=pb.MeshHello(version=PROTOCOL_VERSION, node=a.node))
    greeting, call = await _greeting(a, b, hello)
    assert not greeting.refused
    return call


async def test_another_protocol_version_is_refused_by_name_on_both_sides(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await make("a").open(), await make("b").open()
    monkeypatch.setattr(line_room, "PROTOCOL_VERSION", 99)
    a.mesh.dial([b.address], b.node)
    await until(lambda: bool(b.log) and bool(caplog.messages))
    why = f"it speaks protocol 99, this node {PROTOCOL_VERSION}: update the older one"
    assert b.log == [f"refused node {a.node}: {why}"]
    assert f"node {b.node} does not hear this one: {why}" in caplog.messages
    assert a.ups.empty()


async def test_a_second_node_with_our_id_is_refused_and_told_of(make: Make, stations: list[Station]) -> None:
    a = await make("a").open()
    twin = Station("a", a.credentials)
    stations.append(twin)
    await twin.open()
    twin.mesh.dial([a.address])
    await until(lambda: bool(a.log))
    assert "two nodes with one state directory?" in a.log[0]
    await until(lambda: lines(twin) == [])


@pytest.mark.parametrize(
    "first", [pb.MeshMessage(word=b"no hello"), pb.MeshMessage(), pb.MeshMessage(revocations=b"x")], ids=str
)
async def test_a_stream_that_does_not_begin_with_a_hello_is_not_heard(make: Make, first: pb.MeshMessage) -> None:
    a, b = await make("a").open(), await make("b").open()
    greeting, call = await _greeting(a, b, first)
    assert greeting.refused == "the first message must be a hello"
    assert await _is_over(call)
    assert (len(b.words), b.downs.empty()) == (0, True)


async def test_a_stream_without_a_first_message_is_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "HELLO_DEADLINE_S", 0.2)
    a, b = await make("a").open(), await make("b").open()
    call = await _call(a, b)
    greeting = await asyncio.wait_for(call.read(), HEARD_WITHIN_S)
    assert isinstance(greeting, pb.MeshGreeting)
    assert greeting.refused


@pytest.mark.parametrize("name", ["", "x" * 65, "two\nlines"])
async def test_a_hello_in_the_clear_that_names_nobody_is_refused(stations: list[Station], name: str) -> None:
    stations += [a := Station("a"), b := Station("b")]
    await b.open()
    hello = pb.MeshMessage(hello=pb.MeshHello(version=PROTOCOL_VERSION, node=name))
    greeting, _ = await _greeting(a, b, hello)
    assert "which node" in greeting.refused


async def test_with_credentials_the_certificate_is_believed_and_not_the_hello(
    stations: list[Station], cluster: Cluster
) -> None:
    stations += [a := Station("a", cluster.member("a")), b := Station("b", cluster.member("b"))]
    await b.open()
    hello = pb.MeshMessage(hello=pb.MeshHello(version=PROTOCOL_VERSION, node="0" * 16))
    greeting, call = await _greeting(a, b, hello)
    assert not greeting.refused
    await call.write(pb.MeshMessage(word=b"I am another"))
    assert await b.word(a) == b"I am another"


# ---------------------------------------------------------------- revocations


async def test_a_revocation_goes_from_mesh_to_mesh_and_whoever_is_revoked_is_hung_up_on(
    stations: list[Station], cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    founder, b, c = Station("f", cluster.founder), Station("b", cluster.member("b")), Station("c", cluster.member("c"))
    stations += [founder, b, c]
    for each in stations:
        await each.open()
    await founder.meet(b)
    await b.meet(c)
    await c.meet(b)
    watching = asyncio.create_task(founder.mesh.watch_revocations())
    revoke(cluster.founder, load_authority(cluster.founder.directory), c.node)
    assert await b.down() == (c.node, "it was revoked")
    watching.cancel()
    await asyncio.wait({watching})
    assert b.credentials is not None
    assert load_list(b.credentials).nodes == {c.node}
    await until(lambda: lines(b) == [])
    b.mesh.dial([c.address], c.node)
    assert lines(b) == [], "nor is it dialled again"
    c.mesh.send(b.node, b"let me in")  # its stream ends with the next message
    assert (await c.down())[0] == b.node
    refused = f"node {b.node} does not hear this one: "
    await until(lambda: any(refused in line and "it was revoked" in line for line in caplog.messages))
    assert b.words[c.node].empty()
    b.mesh.dial([c.address])
    await until(lambda: f"node {c.node} was revoked: nothing is said to it" in caplog.messages)
    assert b.ups.empty()


async def test_a_list_that_one_side_missed_comes_with_the_first_greeting_either_way(
    stations: list[Station], cluster: Cluster
) -> None:
    authority = load_authority(cluster.founder.directory)
    signed = bytes(revoke(cluster.founder, authority, NodeId("0" * 16)))
    knows, dials, answers = (cluster.member(name) for name in ("knows", "dials", "answers"))
    accept(knows, signed)
    stations += [k := Station("k", knows), d := Station("d", dials), a := Station("a", answers)]
    for each in stations:
        await each.open()
    await d.meet(k)
    await k.meet(a)
    for credentials in (dials, answers):
        assert load_list(credentials).nodes == {NodeId("0" * 16)}


async def test_a_list_that_the_authority_has_not_signed_changes_nothing(
    stations: list[Station], cluster: Cluster, tmp_path: Path
) -> None:
    stranger = make_cluster(tmp_path / "other")
    forged = bytes(revoke(stranger.founder, load_authority(stranger.founder.directory), NodeId("0" * 16)))
    stations += [a := Station("a", cluster.member("a")), b := Station("b", cluster.member("b"))]
    await b.open()
    call = await _speak(a, b)
    for data in (forged, b"garbage", b"{}"):
        await call.write(pb.MeshMessage(revocations=data))
    await call.write(pb.MeshMessage(word=b"go on"))
    assert await b.word(a) == b"go on"
    assert b.credentials is not None
    assert load_list(b.credentials).nodes == frozenset()
    assert any("list of revoked nodes" in line for line in b.log)
