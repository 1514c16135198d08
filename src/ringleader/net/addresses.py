"""Addresses of nodes as text, "host:port": checked, resolved, put in order. Dials nobody."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from ringleader.errors import BadRequest
from ringleader.net.interfaces import Interface

RESOLVE_DEADLINE_S = 3.0
HOST_CHARACTERS_MAX = 253  # of a DNS name
ADDRESSES_MAX = 16  # of one node; more would only delay the one that works


def normalise(text: str, default_port: int) -> str:
    """`host:port` as we write it: names in lower case, IPv6 in brackets, the port always there.

    Takes "mac.local", "10.0.0.2:7000", "fe80::1%en0", "[fe80::1%en0]:7000". Raises BadRequest (param "peer").
    """
    host, port_text = _split(text.strip())
    port = default_port
    if port_text is not None:
        if not (port_text.isascii() and port_text.isdigit() and len(port_text) <= 5 and 0 < int(port_text) < 65536):
            raise _bad(text, f"{port_text[:20]!r} is not a port")
        port = int(port_text)
    if (
        not host
        or len(host) > HOST_CHARACTERS_MAX
        or any(c.isspace() or not c.isprintable() or c in "/@" for c in host)
    ):
        raise _bad(text, "there is no host name in it")
    if ":" in host:
        bare, _, scope = host.partition("%")
        try:
            return join(f"{ip_address(bare)}{'%' + scope if scope else ''}", port)
        except ValueError:
            raise _bad(text, "its host is not an IPv6 address") from None
    return join(host.lower().rstrip("."), port)


def join(host: str, port: int) -> str:
    """Host and port as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial_target(address: str) -> str:
    """What gRPC dials for an address of ours: it wants a link-local scope escaped as in a URI."""
    return address.replace("%", "%25") if address.startswith("[") else address


async def resolve(address: str) -> tuple[str, ...]:
    """The numeric addresses behind a normalised one, in the system's order; empty when nothing is known just now.

    Also of ".local" names, where the system knows them (macOS does; Linux with nss-mdns).
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        async with asyncio.timeout(RESOLVE_DEADLINE_S):
            rows = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return ()
    found = dict.fromkeys(join(_scoped(row[4]), int(port)) for row in rows)
    return tuple(found)[:ADDRESSES_MAX]


def best_first(hosts: Iterable[str], port: int, interfaces: tuple[Interface, ...]) -> tuple[str, ...]:
    """Where to dial a node that says it is reached at these numeric hosts, the likeliest and fastest first.

    What cannot be its own is left out: multicast, unspecified, a link-local address of an unknown link, loopback
    unless we ourselves are only there, and an address that is ours although the node has others.
    """
    ours = {each.ip for interface in interfaces for each in interface.addresses}
    cut_off = all(interface.loopback for interface in interfaces)
    rows: dict[str, tuple[int, int, int]] = {}
    foreign = False
    own: set[str] = set()
    for host in hosts:
        bare, _, scope = host.partition("%")
        try:
            address = ip_address(bare)
        except ValueError:
            continue
        interface = _reaching(address, scope, interfaces)
        if address.is_multicast or address.is_unspecified or (address.is_loopback and not cut_off):
            continue
        if address.version == 6 and address.is_link_local:
            if interface is None:
                continue
            bare = f"{address}%{interface.name}"
        text = join(bare, port)
        if address in ours:
            own.add(text)
        elif not address.is_link_local:
            foreign = True
        distance = 0 if interface is not None else 1
        speed = interface.mbps if interface is not None else 0
        rows[text] = (distance, -speed, address.version + 4 * address.is_link_local)
    if foreign:  # a container bridge has the same address on every machine; dialling it would reach ourselves
        rows = {text: key for text, key in rows.items() if text not in own}
    return tuple(sorted(rows, key=lambda text: (rows[text], text)))[:ADDRESSES_MAX]


def _reaching(address: IPv4Address | IPv6Address, scope: str, interfaces: tuple[Interface, ...]) -> Interface | None:
    """The interface on whose own network the address lies. A link-local IPv6 address needs its scope to tell."""
    if address.version == 6 and address.is_link_local:
        return next((each for each in interfaces if scope and scope in (each.name, str(each.index))), None)
    return next((each for each in interfaces if any(address in held.network for held in each.addresses)), None)


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _bad(text, "its brackets do not match")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:  # IPv6 without brackets has no port
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _scoped(sockaddr: tuple[Any, ...]) -> str:
    host = str(sockaddr[0])
    scope = int(sockaddr[3]) if len(sockaddr) == 4 else 0
    if not scope or "%" in host:
        return host
    try:
        return f"{host}%{socket.if_indextoname(scope)}"
    except OSError:
        return host


def _bad(text: str, why: str) -> BadRequest:
    return BadRequest(
        f"{text[:80]!r} is no address of a node: {why}. Write host, host:port or [ipv6]:port", param="peer"
    )
