from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_interface
from typing import Any

import pytest
from zeroconf import IPVersion, ServiceInfo, Zeroconf
from zeroconf._dns import DNSPointer
from zeroconf._protocol.incoming import DNSIncoming
from zeroconf._protocol.outgoing import DNSOutgoing

from ringleader.net.advert import SERVICE, Advert
from ringleader.net.interfaces import Interface
from ringleader.net.mdns import (
    OWN_SHARE,
    PACKETS_BURST,
    PACKETS_PER_S,
    BoundedZeroconf,
    Budget,
    Ear,
    service_info,
)
from ringleader.values import NodeId

LAN = Interface("en0", 4, (ip_interface("10.0.0.1/24"), ip_interface("fe80::1/64")))
ADVERT = Advert(NodeId("n"), "n", "c", 7000, version=1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Sink:
    """A socket that counts what would have left."""

    is_ipv6 = False
    sock_name = ("10.0.0.1", 5353)
    fileno = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.transport = self

    def sendto(self, packet: bytes, address: Any) -> None:
        self.sent.append(packet)

    def close(self) -> None:
        pass


class Bounded:
    """A zeroconf under a clock of ours, whose packets go into sinks."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.budget = Budget(clock=self.clock)
        self.zc = BoundedZeroconf(self.budget, interfaces=[], ip_version=IPVersion.V4Only, use_asyncio=True)
        self.info = service_info(ADVERT, (LAN,))
        self.sinks = [Sink() for _ in range(3)]

    def announce(self) -> None:
        self.zc.async_send(self.zc.generate_service_broadcast(self.info, None))

    @property
    def sent(self) -> int:
        return sum(len(sink.sent) for sink in self.sinks)


@pytest.fixture
async def bounded() -> AsyncIterator[Bounded]:
    made = Bounded()
    await made.zc.async_wait_for_start()
    real, made.zc.engine.senders = made.zc.engine.senders, made.sinks  # type: ignore[assignment]  # sinks, not sockets
    yield made
    made.zc.engine.senders = real
    await made.zc._async_close()


def test_a_budget_pays_a_burst_at_once_and_then_its_rate() -> None:
    clock = Clock()
    budget = Budget(burst=10, per_s=2.0, clock=clock)
    assert sum(budget.take(1, own=True) for _ in range(50)) == 10
    assert budget.refused == 40
    clock.now += 3.0
    assert sum(budget.take(1, own=True) for _ in range(50)) == 6
    clock.now += 10_000.0
    assert sum(budget.take(1, own=True) for _ in range(50)) == 10, "what is not used is not saved up"


def test_what_answers_others_leaves_a_third_to_our_own_words() -> None:
    budget = Budget(burst=12, per_s=0.0, clock=Clock())
    assert sum(budget.take(1) for _ in range(50)) == 8
    assert sum(budget.take(1, own=True) for _ in range(50)) == 4


async def test_no_minute_sees_more_packets_than_the_bound_however_often_we_announce(bounded: Bounded) -> None:
    for _ in range(20 * 60):  # twenty times a second, for a minute, on three interfaces: 3,600 packets
        bounded.announce()
        bounded.clock.now += 0.05
    assert 0.8 * PACKETS_PER_S * 60 < bounded.sent <= PACKETS_BURST + 60 * PACKETS_PER_S
    before = bounded.sent
    for _ in range(20 * 60):
        bounded.announce()
        bounded.clock.now += 0.05
    assert bounded.sent - before <= 60 * PACKETS_PER_S + 3, "the burst was spent in the first minute"


async def test_our_own_announcements_get_through_while_answers_have_used_up_their_part(bounded: Bounded) -> None:
    while bounded.budget.refused == 0:
        bounded.announce()
    before = bounded.sent
    bounded.zc.own_words = True
    bounded.announce()
    assert bounded.sent == before + 3
    for _ in range(1000):
        bounded.announce()
    assert bounded.sent - before <= PACKETS_BURST / OWN_SHARE + 3, "they are bounded too"


async def test_an_answer_to_one_asker_costs_one_packet(bounded: Bounded) -> None:
    out = bounded.zc.generate_service_broadcast(bounded.info, None)
    bounded.zc.async_send(out, "10.0.0.9", transport=bounded.sinks[1])
    assert [len(sink.sent) for sink in bounded.sinks] == [0, 1, 0]


def test_an_advert_as_records_has_a_host_name_of_its_own_and_all_addresses() -> None:
    info = service_info(ADVERT, (LAN,))
    assert info.server == f"{ADVERT.label()}.local."
    assert info.parsed_addresses() == ["10.0.0.1", "fe80::1"]
    crowded = Interface("en0", 4, tuple(ip_interface(f"10.0.{n}.1/24") for n in range(100)))
    assert len(service_info(ADVERT, (crowded,)).parsed_addresses()) < 40


# ---------------------------------------------------------------- what is heard


class Listening:
    def __init__(self) -> None:
        self.heard: list[tuple[str, list[str]]] = []
        self.goodbyes: list[str] = []
        self.ear = Ear(self.on_heard, self.goodbyes.append)

    def on_heard(self, label: str, info: ServiceInfo) -> None:
        self.heard.append((label, info.parsed_addresses()))


def hear(zc: Zeroconf, out: DNSOutgoing) -> None:
    """As if this packet had come in."""
    for packet in out.packets():
        zc.record_manager.async_updates_from_response(DNSIncoming(packet, ("10.0.0.1", 5353)))


async def test_a_whole_service_is_heard_and_each_repetition_and_the_goodbye(bounded: Bounded) -> None:
    listening = Listening()
    bounded.zc.async_add_listener(listening.ear, None)
    name = f"{ADVERT.label()}._ringleader._tcp.local.".lower()
    for times in (1, 2, 3):
        hear(bounded.zc, bounded.zc.generate_service_broadcast(bounded.info, None))
        assert listening.heard == times * [(name, ["10.0.0.1", "fe80::1"])]
    hear(bounded.zc, bounded.zc.generate_service_broadcast(bounded.info, 0))
    assert listening.goodbyes == [name]
    assert len(listening.heard) == 3


async def test_half_a_service_other_services_and_garbage_are_not_heard(bounded: Bounded) -> None:
    listening = Listening()
    bounded.zc.async_add_listener(listening.ear, None)
    half = DNSOutgoing(0x8400)
    half.add_answer_at_time(bounded.info.dns_pointer(), 0)
    hear(bounded.zc, half)
    other = ServiceInfo(
        "_http._tcp.local.", "x._http._tcp.local.", 80, server="x.local.", parsed_addresses=["10.0.0.5"]
    )
    hear(bounded.zc, bounded.zc.generate_service_broadcast(other, None))
    empty = DNSOutgoing(0x8400)
    empty.add_answer_at_time(DNSPointer(SERVICE, 12, 1, 120, f".{SERVICE}"), 0)
    hear(bounded.zc, empty)
    bounded.zc.record_manager.async_updates_from_response(DNSIncoming(b"\xff" * 400, ("10.0.0.1", 5353)))
    assert listening.heard == [] and listening.goodbyes == []
