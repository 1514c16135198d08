from __future__ import annotations

import socket
from collections import namedtuple
from ipaddress import ip_interface

import psutil
import pytest

from ringleader.net.interfaces import INTERFACES_MAX, Interface, local_interfaces, reached_at

Address = namedtuple("Address", "family address netmask")
State = namedtuple("State", "isup flags speed")

LAN = Interface("en0", 4, (ip_interface("192.168.1.4/24"), ip_interface("fe80::4/64")))
BRIDGE = Interface("bridge0", 7, (ip_interface("169.254.9.4/16"),))
LOOPBACK = Interface("lo0", 1, (ip_interface("127.0.0.1/8"),), loopback=True)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[State, list[Address]]]:
    """What the system would tell; filled by the test."""
    held: dict[str, tuple[State, list[Address]]] = {}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: {name: state for name, (state, _) in held.items()})
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {name: list(rows) for name, (_, rows) in held.items()})
    monkeypatch.setattr(socket, "if_nametoindex", lambda name: list(held).index(name) + 1)
    return held


def up(flags: str = "up,broadcast,running,multicast", speed: int = 0) -> State:
    return State(True, flags, speed)


def four(text: str) -> Address:
    return Address(socket.AF_INET, text, "255.255.255.0")


def six(text: str) -> Address:
    return Address(socket.AF_INET6, text, "ffff:ffff:ffff:ffff::")


def test_this_machine_has_interfaces_with_indexes_and_loopback_comes_last() -> None:
    found = local_interfaces()
    assert found and all(each.index > 0 and each.addresses for each in found)
    assert [each.loopback for each in found] == sorted(each.loopback for each in found)


def test_thunderbolt_bridges_count_and_tunnels_radios_and_container_bridges_do_not(
    machine: dict[str, tuple[State, list[Address]]],
) -> None:
    rows = [four("10.0.0.1")]
    machine["lo0"] = (up("up,loopback,running,multicast"), rows)
    machine["en0"] = (up(), rows)
    machine["bridge0"] = (up(speed=40_000), rows)
    machine["utun3"] = (up("up,pointopoint,running,multicast"), rows)
    machine["awdl0"] = (up(), rows)
    machine["docker0"] = (up(), rows)
    machine["en5"] = (State(False, "broadcast,multicast", 0), rows)
    machine["en6"] = (up(), [])
    machine["odd0"] = (up("up,broadcast,running"), rows)
    assert [each.name for each in local_interfaces()] == ["en0", "bridge0", "lo0"]


def test_addresses_come_ipv4_first_then_routable_then_link_local_without_scope(
    machine: dict[str, tuple[State, list[Address]]],
) -> None:
    odd = Address(socket.AF_INET6, "not an address", None)
    machine["en0"] = (up(), [six("fe80::4%en0"), odd, six("fd00::4"), four("10.0.0.4")])
    (only,) = local_interfaces()
    assert [str(each) for each in only.addresses] == ["10.0.0.4/24", "fd00::4/64", "fe80::4/64"]
    assert (only.ipv4, only.link_local) == ("10.0.0.4", "fe80::4")


def test_the_number_of_interfaces_is_bounded(machine: dict[str, tuple[State, list[Address]]]) -> None:
    for n in range(3 * INTERFACES_MAX):
        machine[f"en{n}"] = (up(), [four("10.0.0.1")])
    assert len(local_interfaces()) == INTERFACES_MAX


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "a-name"])
def test_a_node_that_listens_everywhere_is_met_on_all_that_lead_out(host: str) -> None:
    assert reached_at(host, (LAN, BRIDGE, LOOPBACK)) == (LAN, BRIDGE)


def test_a_node_that_listens_at_one_address_is_met_there_only() -> None:
    assert reached_at("192.168.1.4", (LAN, BRIDGE, LOOPBACK)) == (
        Interface("en0", 4, (ip_interface("192.168.1.4/24"),)),
    )
    assert reached_at("127.0.0.1", (LAN, BRIDGE, LOOPBACK)) == (LOOPBACK,)
    assert reached_at("10.1.1.1", (LAN, BRIDGE, LOOPBACK)) == ()


def test_without_a_network_nodes_of_one_machine_meet_on_loopback() -> None:
    assert reached_at("0.0.0.0", (LOOPBACK,)) == (LOOPBACK,)


def test_a_changing_speed_is_no_change_of_the_interface() -> None:
    assert Interface("en0", 4, (), mbps=300) == Interface("en0", 4, (), mbps=866)
