from __future__ import annotations

from ipaddress import ip_interface

import pytest

from ringleader.errors import BadRequest
from ringleader.net.addresses import ADDRESSES_MAX, best_first, dial_target, normalise, resolve
from ringleader.net.interfaces import Interface

WIFI = Interface("en0", 4, (ip_interface("192.168.1.4/24"), ip_interface("fe80::4/64")), mbps=300)
BRIDGE = Interface("bridge0", 7, (ip_interface("169.254.9.4/16"), ip_interface("fe80::7/64")), mbps=40_000)
LOOPBACK = Interface("lo0", 1, (ip_interface("127.0.0.1/8"),), loopback=True)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("mac-studio.local", "mac-studio.local:52415"),
        ("Mac-Studio.Local.:7000", "mac-studio.local:7000"),
        (" 10.0.0.2:7000 ", "10.0.0.2:7000"),
        ("10.0.0.2", "10.0.0.2:52415"),
        ("fe80::1%en0", "[fe80::1%en0]:52415"),
        ("[FE80::0001%en0]:7000", "[fe80::1%en0]:7000"),
        ("[::1]", "[::1]:52415"),
        ("::1", "[::1]:52415"),
    ],
)
def test_an_address_is_written_in_one_way(written: str, normal: str) -> None:
    assert normalise(written, 52415) == normal
    assert normalise(normal, 1) == normal, "what is normal stays so"


@pytest.mark.parametrize(
    "written",
    ["", ":7000", "host:0", "host:65536", "host:x", "host:", "host:1e3", "host:²", "host:0700000", "[::1", "[::1]7000",
     "[zz::]:1", "a b:1", "http://host:1", "me@host", "x" * 300, "1:2:3", "host:" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_name(written: str) -> None:
    with pytest.raises(BadRequest) as refused:
        normalise(written, 52415)
    assert refused.value.param == "peer"
    assert len(str(refused.value)) < 250


def test_grpc_gets_the_scope_escaped() -> None:
    assert dial_target("[fe80::1%en0]:7000") == "[fe80::1%25en0]:7000"
    assert dial_target("10.0.0.2:7000") == "10.0.0.2:7000"


async def test_numeric_addresses_and_localhost_resolve_and_unknown_names_give_nothing() -> None:
    assert await resolve("127.0.0.1:7000") == ("127.0.0.1:7000",)
    assert await resolve("[::1]:7000") == ("[::1]:7000",)
    assert "127.0.0.1:7000" in await resolve("localhost:7000")
    assert await resolve("no-such-host.invalid:7000") == ()
    assert await resolve("x" * 80 + ".invalid:7000") == (), "a label that is too long is no error either"


def test_the_fastest_network_that_both_are_on_comes_first_and_what_lies_elsewhere_last() -> None:
    hosts = ["10.9.9.9", "fe80::99%4", "192.168.1.9", "169.254.9.9"]
    assert best_first(hosts, 7000, (WIFI, BRIDGE)) == (
        "169.254.9.9:7000",
        "192.168.1.9:7000",
        "[fe80::99%en0]:7000",
        "10.9.9.9:7000",
    )


def test_a_link_local_address_of_an_unknown_link_is_left_out() -> None:
    assert best_first(["fe80::99", "fe80::99%12", "fe80::99%bridge0"], 7000, (WIFI, BRIDGE)) == (
        "[fe80::99%bridge0]:7000",
    )


def test_an_address_that_is_ours_is_not_another_machines() -> None:
    """Container bridges have the same address everywhere; dialling it would reach ourselves."""
    docker = Interface("cni0", 9, (ip_interface("172.17.0.1/16"),))
    assert best_first(["172.17.0.1", "192.168.1.9"], 7000, (WIFI, docker)) == ("192.168.1.9:7000",)


def test_a_second_node_on_this_machine_keeps_our_addresses() -> None:
    assert best_first(["192.168.1.4"], 7001, (WIFI,)) == ("192.168.1.4:7001",)


def test_loopback_counts_only_while_there_is_nothing_else() -> None:
    assert best_first(["127.0.0.1"], 7000, (LOOPBACK,)) == ("127.0.0.1:7000",)
    assert best_first(["127.0.0.1", "192.168.1.9"], 7000, (WIFI, LOOPBACK)) == ("192.168.1.9:7000",)


def test_garbage_among_the_hosts_is_left_out_and_their_number_is_bounded() -> None:
    assert best_first(["", "x", "224.0.0.251", "0.0.0.0", "ff02::fb", "::"], 7000, (WIFI,)) == ()
    many = [f"10.0.{n}.1" for n in range(100)]
    assert len(best_first(many, 7000, (WIFI,))) == ADDRESSES_MAX
