"""The network interfaces of this machine on which other nodes may be met, and where they reach us. Only looks."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface
from typing import Any

import psutil

# Interfaces that never lead to another node: Apple's peer-to-peer radio, and bridges of containers and machines
# inside this one. Tunnels are known by their flag. Apple's Thunderbolt bridge ("bridge0") is none of these.
NEVER = ("awdl", "llw", "anpi", "docker", "br-", "virbr", "vmnet")
INTERFACES_MAX = 16  # each costs a socket and a packet for every announcement


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface that is up. `addresses` has IPv4 first, then IPv6 as routable before link-local; never empty.

    `mbps` is the link's speed as the system tells it, 0 where it does not.
    """

    name: str
    index: int
    addresses: tuple[IPv4Interface | IPv6Interface, ...]
    loopback: bool = False
    mbps: int = field(default=0, compare=False)  # Wi-Fi changes it all the time

    @property
    def ipv4(self) -> str | None:
        """Its first IPv4 address."""
        return next((str(each.ip) for each in self.addresses if each.version == 4), None)

    @property
    def link_local(self) -> str | None:
        """Its IPv6 link-local address, without scope."""
        return next((str(each.ip) for each in self.addresses if each.version == 6 and each.ip.is_link_local), None)


def local_interfaces() -> tuple[Interface, ...]:
    """Those that are up and may carry multicast, in a stable order: loopback last, at most INTERFACES_MAX."""
    stats = psutil.net_if_stats()
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        state = stats.get(name)
        if state is None or not state.isup or not name or name.startswith(NEVER):
            continue
        flags = state.flags.split(",")
        loopback = "loopback" in flags
        if "pointopoint" in flags or not (loopback or "multicast" in flags):
            continue
        parsed = _parse(addresses)
        index = _index(name)
        if parsed and index:
            found.append(Interface(name, index, parsed, loopback, state.speed))
    found.sort(key=lambda each: (each.loopback, each.index))
    return tuple(found[:INTERFACES_MAX])


def reached_at(host: str, interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """The interfaces on which a node that listens at `host` is met: all that lead out, or the one with that address.

    Loopback is one of them only where nothing leads out, or where the node listens there and nowhere else.
    """
    try:
        wanted = ip_address(host.partition("%")[0])
    except ValueError:
        wanted = ip_address("0.0.0.0")
    if not wanted.is_unspecified:
        named = []
        for each in interfaces:
            held = tuple(address for address in each.addresses if address.ip == wanted)
            if held:
                named.append(Interface(each.name, each.index, held, each.loopback, each.mbps))
        return tuple(named)
    leading_out = tuple(each for each in interfaces if not each.loopback)
    return leading_out or interfaces


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:  # it went away between the two looks
        return 0


def _parse(addresses: list[Any]) -> tuple[IPv4Interface | IPv6Interface, ...]:
    parsed = []
    for each in addresses:
        if each.family not in (socket.AF_INET, socket.AF_INET6):
            continue
        bare = each.address.partition("%")[0]
        try:
            parsed.append(ip_interface(f"{bare}/{_prefix(each.netmask, ':' in bare)}"))
        except ValueError:  # an address that this version of the system writes in a way of its own
            continue
    parsed.sort(key=lambda held: (held.version, held.ip.is_link_local, held.ip))
    return tuple(parsed)


def _prefix(netmask: str | None, is_ipv6: bool) -> int:
    if not netmask:
        return 64 if is_ipv6 else 32
    return int(ip_address(netmask.partition("%")[0])).bit_count()
