"""Real multicast, on loopback only; tests/netns has hosts and cables."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ringleader.net.advert import Advert
from ringleader.net.discovery import Discovery
from ringleader.net.interfaces import Interface, local_interfaces
from ringleader.net.mdns import Budget
from ringleader.net.neighbours import Found, Gone, News
from ringleader.values import NodeId

LOOPBACK = tuple(each for each in local_interfaces() if each.loopback)
WITHIN_S = 5.0


def _multicast_works() -> bool:
    """Whether this machine carries multicast on loopback."""
    group = struct.pack("4s4s", socket.inet_aton("224.0.0.251"), socket.inet_aton("127.0.0.1"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        try:
            here.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            here.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            here.bind(("", 0))
            here.settimeout(1.0)
            here.sendto(b"x", ("224.0.0.251", here.getsockname()[1]))
            return here.recv(1) == b"x"
        except OSError:
            return False


multicast = pytest.mark.skipif(not _multicast_works(), reason="no multicast on this machine's loopback")


class Ears:
    """Hears one Discovery's news."""

    def __init__(self) -> None:
        self.news: list[News] = []
        self._more = asyncio.Event()

    def __call__(self, news: News) -> None:
        self.news.append(news)
        self._more.set()

    async def until(self, condition: Callable[[News], bool], within_s: float = WITHIN_S) -> News:
        """The first news that meets the condition."""
        seen = 0
        async with asyncio.timeout(within_s):
            while True:
                for each in self.news[seen:]:
                    if condition(each):
                        return each
                seen = len(self.news)
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def running(discovery: Discovery) -> AsyncIterator[Discovery]:
    task = asyncio.create_task(discovery.run())
    yield discovery
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled(), "it ends by nothing but its cancellation"


def advert(node: str, cluster: str = "c") -> Advert:
    return Advert(NodeId(node), node, cluster, 7000, version=1)


def make(node: str, ears: Ears, look: Callable[[], tuple[Interface, ...]] = lambda: LOOPBACK) -> Discovery:
    return Discovery(advert(node), ears, look=look)


def found(node: str) -> Callable[[News], bool]:
    return lambda news: isinstance(news, Found) and news.node_id == node


@multicast
async def test_several_nodes_of_one_machine_find_each_other_and_notice_who_goes() -> None:
    ears = {name: Ears() for name in "abc"}
    async with running(make("a", ears["a"])), running(make("b", ears["b"])):
        async with running(make("c", ears["c"])):
            for name in "abc":
                for other in "abc".replace(name, ""):
                    news = await ears[name].until(found(other))
                    assert isinstance(news, Found)
                    assert (news.addresses[0], news.cluster_id, news.version) == ("127.0.0.1:7000", "c", 1)
        await ears["a"].until(lambda news: news == Gone(NodeId("c")))
        await ears["b"].until(lambda news: news == Gone(NodeId("c")))
    assert not any(found("a")(news) for news in ears["a"].news), "nobody finds himself"


@multicast
async def test_a_node_that_joined_a_cluster_is_found_again_with_its_id() -> None:
    ears, other = Ears(), Ears()
    async with running(make("a", ears)), running(make("b", other)) as b:
        await ears.until(found("b"))
        b.advertise(advert("b", cluster="new"))
        await ears.until(lambda news: isinstance(news, Found) and news.cluster_id == "new")


@multicast
async def test_a_network_that_comes_later_is_used_and_its_absence_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ringleader.net")
    there: tuple[Interface, ...] = ()
    ears, other = Ears(), Ears()
    async with running(make("a", ears)), running(make("b", other, lambda: there)) as b:
        for _ in range(3):
            b.refresh()
            await asyncio.sleep(0.05)
        assert [record.message.split(";")[0] for record in caplog.records] == [
            "No network interface is up for discovery"
        ]
        there = LOOPBACK
        b.refresh()
        await ears.until(found("b"))


async def test_an_interface_that_cannot_be_used_is_trouble_that_is_logged_once_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "ringleader.net")
    tries = 0

    def refuse(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("ringleader.net.mdns.BoundedZeroconf", refuse)
    async with running(make("a", Ears())) as a:
        async with asyncio.timeout(WITHIN_S):
            while tries < 3:
                a.refresh()
                await asyncio.sleep(0.02)
    assert len(caplog.records) == 1 and "Address already in use" in caplog.records[0].message


@multicast
async def test_interfaces_that_flap_cause_no_more_packets_than_the_budget_allows() -> None:
    """For real: every packet to the group is counted by a listener of its own."""
    group = struct.pack("4s4s", socket.inet_aton("224.0.0.251"), socket.inet_aton("127.0.0.1"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as counter:
        counter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        counter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        counter.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        counter.bind(("224.0.0.251", 5353))
        counter.setblocking(False)
        there = LOOPBACK
        budget = Budget(burst=70, per_s=1.0)
        async with running(Discovery(advert("a"), Ears(), look=lambda: there, budget=budget)) as a:
            start = asyncio.get_running_loop().time()
            async with asyncio.timeout(30.0):
                while budget.refused < 20:
                    there = () if there else LOOPBACK
                    a.refresh()
                    await asyncio.sleep(0.05)
            took_s = asyncio.get_running_loop().time() - start
        sent = 0
        while True:
            try:
                sent += b"_ringleader" in counter.recv(9000)
            except BlockingIOError:
                break
        assert 10 <= sent <= 70 + took_s + 1
