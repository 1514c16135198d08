from __future__ import annotations

from ipaddress import ip_interface

from ringleader.net.advert import Advert
from ringleader.net.interfaces import Interface
from ringleader.net.neighbours import HOSTS_MAX, LABELS_MAX, SILENCE_S, Found, Gone, Neighbours, News
from ringleader.values import NodeId

LAN = Interface("en0", 4, (ip_interface("10.0.0.1/24"), ip_interface("fe80::1/64")))
OTHER = Interface("en1", 5, (ip_interface("10.5.0.1/24"),))


def advert(node: str, cluster: str = "ours", port: int = 7000, join: int | None = None) -> Advert:
    return Advert(NodeId(node), node, cluster, port, join, version=1)


def neighbours() -> Neighbours:
    made = Neighbours(advert("me"))
    assert made.moved((LAN,)) == []
    return made


def hear(
    those: Neighbours, node: str, *hosts: str, label: str = "", source: str = "v4", now: float = 0.0
) -> list[News]:
    return those.heard(label or node, advert(node), source, hosts or ("10.0.0.9",), now)


def test_a_node_is_told_once_and_again_when_something_changes() -> None:
    those = neighbours()
    assert hear(those, "a") == [Found(NodeId("a"), "a", "ours", ("10.0.0.9:7000",), 1)]
    assert hear(those, "a", now=1.0) == []
    assert those.heard("a", advert("a", cluster="theirs", join=7001), "v4", ("10.0.0.9",), 2.0) == [
        Found(NodeId("a"), "a", "theirs", ("10.0.0.9:7000",), 1, 7001)
    ]


def test_we_are_no_neighbour_of_ourselves() -> None:
    assert hear(neighbours(), "me") == []


def test_a_goodbye_is_told_once() -> None:
    those = neighbours()
    hear(those, "a")
    assert those.gone("a") == [Gone(NodeId("a"))]
    assert those.gone("a") == []
    assert those.gone("never heard") == []


def test_silence_is_a_goodbye_and_every_beacon_ends_it() -> None:
    those = neighbours()
    hear(those, "a", now=0.0)
    hear(those, "b", now=0.0)
    hear(those, "a", now=60.0)
    assert those.tick(SILENCE_S) == []
    assert those.tick(SILENCE_S + 1) == [Gone(NodeId("b"))]
    assert len(hear(those, "b", now=SILENCE_S + 2)) == 1, "found again"


def test_a_node_without_an_address_that_can_be_dialled_is_not_told_until_it_has_one() -> None:
    those = neighbours()
    assert hear(those, "a", "fe80::9") == [], "the link is not known"
    (found,) = hear(those, "a", "fe80::9%4", source="v6")
    assert isinstance(found, Found) and found.addresses == ("[fe80::9%en0]:7000",)
    assert hear(those, "a", "fe80::9") == [], "IPv4's records know no scope; what IPv6's said stays"
    assert hear(those, "a", "fe80::8") == [Gone(NodeId("a"))], "that address is told no more"


def test_an_address_that_is_told_no_more_is_forgotten_whoever_heard_of_it() -> None:
    those = neighbours()
    hear(those, "a", "10.0.0.9", "10.0.0.8", source="v4")
    (found,) = hear(those, "a", "10.0.0.8", source="v6")
    assert isinstance(found, Found) and found.addresses == ("10.0.0.8:7000",)


def test_on_another_network_other_addresses_come_first() -> None:
    those = neighbours()
    (first,) = hear(those, "a", "10.0.0.9", "10.5.0.9")
    (second,) = those.moved((OTHER,))
    assert isinstance(first, Found) and first.addresses[0] == "10.0.0.9:7000"
    assert isinstance(second, Found) and second.addresses[0] == "10.5.0.9:7000"


def test_whoever_claims_a_nodes_id_cannot_make_it_go() -> None:
    those = neighbours()
    hear(those, "a", "10.0.0.9", label="true")
    (both,) = hear(those, "a", "10.0.0.66", label="false", now=1.0)
    assert isinstance(both, Found) and set(both.addresses) == {"10.0.0.9:7000", "10.0.0.66:7000"}
    (back,) = those.gone("false")
    assert isinstance(back, Found) and back.addresses == ("10.0.0.9:7000",)


def test_a_label_that_changes_its_node_says_goodbye_for_the_old_one() -> None:
    those = neighbours()
    hear(those, "a", label="x")
    gone, found = hear(those, "b", label="x")
    assert gone == Gone(NodeId("a"))
    assert isinstance(found, Found) and found.node_id == "b"


def test_strangers_cannot_fill_the_memory_nor_keep_our_own_out() -> None:
    those = neighbours()
    told: list[News] = []
    for n in range(1000):
        told += those.heard(f"s{n}", advert(f"s{n}", cluster="theirs"), "v4", ("10.0.0.9",), float(n))
    assert len(told) == LABELS_MAX
    gone, found = hear(those, "a", now=2000.0)
    assert gone == Gone(NodeId("s0")), "the stranger longest unheard makes room"
    assert isinstance(found, Found) and found.node_id == "a"
    for n in range(2 * LABELS_MAX):
        hear(those, f"o{n}", now=3000.0)
    assert hear(those, "late", now=3001.0) == [], "a memory full of our own is full"


def test_a_thousand_addresses_are_cut() -> None:
    those = neighbours()
    hosts = [*(f"192.168.{n}.1" for n in range(200)), "10.0.0.9"]
    (found,) = hear(those, "a", *hosts)
    assert isinstance(found, Found) and len(found.addresses) <= HOSTS_MAX
