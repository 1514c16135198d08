"""Nodes find each other across real cables. Every deadline is of the product: POLL_S and what multicast DNS waits."""

from __future__ import annotations

import json
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.netns.process import Process, socket_in
from tests.netns.world import World

pytestmark = pytest.mark.netns
FOUND_WITHIN_S = 5.0
Event = dict[str, Any]


class Finder:
    """One Discovery in a process of its own."""

    def __init__(self, world: World, host: str, node: str = "", **options: Any) -> None:
        self.node = node or host
        words = (sys.executable, "-m", "tests.netns.finder", json.dumps({"node": self.node, **options}))
        self.process: Process = world.start(host, *words, name=self.node)
        self.events: list[Event] = []
        self.until(lambda event: event["event"] == "Started", 20.0)

    def until(self, condition: Callable[[Event], bool], within_s: float = FOUND_WITHIN_S) -> Event:
        """The first event, old or new, that meets the condition."""
        end = time.monotonic() + within_s
        for event in self.events:
            if condition(event):
                return event
        while (line := self.process.line(max(0.0, end - time.monotonic()))) is not None:
            self.events.append(json.loads(line))
            if condition(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"{self.node} told only {self.events} in {within_s:g} s; {self.process.words()}")

    def finds(self, node: str, address: str = "", within_s: float = FOUND_WITHIN_S) -> Event:
        return self.until(
            lambda event: (
                event["event"] == "Found"
                and event["node_id"] == node
                and any(address in each for each in event["addresses"])
            ),
            within_s,
        )

    def loses(self, node: str, within_s: float = FOUND_WITHIN_S) -> Event:
        return self.until(lambda event: event["event"] == "Gone" and event["node_id"] == node, within_s)


def test_two_hosts_find_each_other_by_ipv4_and_one_that_goes_is_gone(make_world: Callable[..., World]) -> None:
    world = make_world("ab")
    a, b = Finder(world, "a"), Finder(world, "b")
    assert a.finds("b")["addresses"][0] == "10.77.0.2:7000"
    assert b.finds("a")["addresses"][0] == "10.77.0.1:7000"
    assert b.process.stop() == 0
    a.loses("b")


def test_two_hosts_find_each_other_by_ipv6_alone(make_world: Callable[..., World]) -> None:
    world = make_world("ab", ipv4=False)
    a, b = Finder(world, "a"), Finder(world, "b")
    for one, other in ((a, b), (b, a)):
        (address,) = one.finds(other.node)["addresses"]
        assert address.startswith("[fe80::") and address.endswith("%eth0]:7000"), "link-local, with our own scope"


def test_an_interface_that_comes_while_nodes_run_is_used(make_world: Callable[..., World]) -> None:
    """As when a Thunderbolt cable is plugged in: three hosts, of which two get a second network."""
    world = make_world("ab")
    a, b = Finder(world, "a"), Finder(world, "b")
    a.finds("b")
    world.add_network("a", "b")
    a.finds("b", "10.77.1.2")
    b.finds("a", "10.77.1.1")


def test_a_network_that_comes_after_the_start_is_used(make_world: Callable[..., World]) -> None:
    world = make_world("ab")
    for name in "ab":
        world.host(name).ip("link", "set", "eth0", "down")
    a, b = Finder(world, "a"), Finder(world, "b")
    for name in "ab":
        world.host(name).ip("link", "set", "eth0", "up")
    a.finds("b", "10.77.0.2", 2 * FOUND_WITHIN_S)
    b.finds("a", "10.77.0.1", 2 * FOUND_WITHIN_S)


def test_several_nodes_of_one_host_are_found_by_all(make_world: Callable[..., World]) -> None:
    world = make_world("ab")
    finders = [Finder(world, "a", f"a{n}", port=7000 + n) for n in range(3)] + [Finder(world, "b")]
    for one in finders:
        for other in finders:
            if other is not one:
                one.finds(other.node)
    assert [finders[3].finds(f"a{n}")["addresses"][0] for n in range(3)] == [f"10.77.0.1:{7000 + n}" for n in range(3)]


def test_a_node_that_is_killed_and_comes_back_is_found_at_its_new_port(make_world: Callable[..., World]) -> None:
    world = make_world("ab")
    a, b = Finder(world, "a"), Finder(world, "b")
    a.finds("b")
    b.process.send(signal.SIGKILL)
    Finder(world, "b", port=7009)
    a.finds("b", "10.77.0.2:7009")


def test_an_interface_that_flaps_and_asking_without_end_cost_no_more_than_the_budget(
    make_world: Callable[..., World],
) -> None:
    """Host b asks a hundred times a second, as frames that go round in a closed ring do; host a's interface flaps."""
    world = make_world("ab")
    burst, per_s = 30, 2.0
    watching = socket_in(world.host("b").namespace, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    watching.bind(("eth0", 0))
    asking = socket_in(world.host("b").namespace, socket.AF_INET, socket.SOCK_DGRAM)
    own = socket.inet_aton("10.77.0.2")
    asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
    begin = time.monotonic()
    Finder(world, "a", budget=[burst, per_s])
    mac = world.host("a").macs()[0]
    sent = flaps = 0
    question = (
        b"\0\0\0\0\0\1\0\0\0\0\0\0\x0b_ringleader\x04_tcp\x05local\0\0\x0c\x80\1"  # PTR, a unicast answer is welcome
    )
    while (now := time.monotonic()) < begin + 10.0:
        asking.sendto(question, ("224.0.0.251", 5353))
        if now - begin > flaps * 0.7:
            flaps += 1
            world.host("a").ip("link", "set", "eth0", "down" if flaps % 2 else "up")
        end = now + 0.01
        while select.select([watching], [], [], max(0.0, end - time.monotonic()))[0]:
            sent += _is_mdns_of(watching.recv(2000), mac)
    took_s = time.monotonic() - begin
    assert burst / 3 <= sent <= burst + per_s * took_s
    watching.close()
    asking.close()


def _is_mdns_of(frame: bytes, mac: str) -> bool:
    """Whether the frame is a datagram of multicast DNS that this interface sent."""
    return frame[6:12] == bytes.fromhex(mac.replace(":", "")) and b"_ringleader" in frame
