"""What the network says of other nodes, remembered within bounds and turned into news. Proves nothing, dials nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ringleader.net.addresses import best_first
from ringleader.net.advert import Advert
from ringleader.net.interfaces import Interface
from ringleader.values import NodeId

SILENCE_S = 100.0  # three beacons lost and some: the node does not advertise any more
LABELS_MAX = 64  # twice what a cluster may have, so that strangers cannot fill the memory
HOSTS_MAX = 64  # addresses looked at in one advert


@dataclass(frozen=True, slots=True)
class Found:
    """A node says that it is here. `addresses` are numeric "host:port" of its control plane, best first, never empty.

    `join_port`, where it takes in new nodes, is a port of the same hosts. Nothing of it is proven.
    """

    node_id: NodeId
    name: str
    cluster_id: str
    addresses: tuple[str, ...]
    version: int
    join_port: int | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """A node said goodbye, or has not been heard for SILENCE_S. It may live all the same."""

    node_id: NodeId


News = Found | Gone


@dataclass(slots=True)
class _Label:
    advert: Advert
    at: float
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the source that had them


class Neighbours:
    """Labels heard so far and what was told of them. Every method returns the news that it makes.

    Several labels may claim one node id; the addresses of all are told, since only a dial shows who is who.
    """

    def __init__(self, own: Advert) -> None:
        self.own = own
        self._interfaces: tuple[Interface, ...] = ()
        self._labels: dict[str, _Label] = {}
        self._told: dict[NodeId, Found] = {}

    def heard(self, label: str, advert: Advert, source: str, hosts: Iterable[str], now: float) -> list[News]:
        """A label was announced, or again; `source` (an address family) had these hosts for it."""
        if advert.node == self.own.node:
            return []
        news: list[News] = []
        before = self._labels.get(label)
        if before is not None and before.advert.node != advert.node:
            news += self.gone(label)
            before = None
        if before is None:
            if not self._has_room(advert):
                return news
            news += self._make_room()
        told = tuple(hosts)[:HOSTS_MAX]
        # Each source has all addresses, but only IPv6 knows on which link a link-local one is: what another source
        # said earlier stays as far as the address is still told.
        bare = {_bare(host) for host in told}
        known = before.hosts if before is not None else {}
        kept = {other: tuple(host for host in hosts if _bare(host) in bare) for other, hosts in known.items()}
        self._labels[label] = _Label(advert, now, {**kept, source: told})
        return news + self._news_of(advert.node)

    def gone(self, label: str) -> list[News]:
        """A label said goodbye."""
        left = self._labels.pop(label, None)
        return self._news_of(left.advert.node) if left is not None else []

    def tick(self, now: float) -> list[News]:
        """Forget who has been silent for too long."""
        silent = [label for label, each in self._labels.items() if each.at < now - SILENCE_S]
        return [news for label in silent for news in self.gone(label)]

    def moved(self, interfaces: tuple[Interface, ...]) -> list[News]:
        """This machine is on other networks now: what is near has changed."""
        self._interfaces = interfaces
        nodes = dict.fromkeys(each.advert.node for each in self._labels.values())
        return [news for node in nodes for news in self._news_of(node)]

    def _has_room(self, advert: Advert) -> bool:
        """One of our own cluster displaces a stranger where the memory is full."""
        return len(self._labels) < LABELS_MAX or (advert.cluster == self.own.cluster and bool(self._strangers()))

    def _make_room(self) -> list[News]:
        if len(self._labels) < LABELS_MAX:
            return []
        return self.gone(min(self._strangers(), key=lambda label: self._labels[label].at))

    def _strangers(self) -> list[str]:
        return [label for label, each in self._labels.items() if each.advert.cluster != self.own.cluster]

    def _news_of(self, node: NodeId) -> list[News]:
        """What is now known of a node, where that is not what was told last."""
        labels = sorted((each for each in self._labels.values() if each.advert.node == node), key=lambda each: -each.at)
        addresses: dict[str, None] = {}
        for each in labels:
            hosts = [host for hosts in each.hosts.values() for host in hosts]
            addresses |= dict.fromkeys(best_first(hosts, each.advert.control_port, self._interfaces))
        if addresses:
            advert = labels[0].advert
            found = Found(node, advert.name, advert.cluster, tuple(addresses), advert.version, advert.join_port)
            if self._told.get(node) == found:
                return []
            self._told[node] = found
            return [found]
        return [Gone(node)] if self._told.pop(node, None) is not None else []


def _bare(host: str) -> str:
    return host.partition("%")[0]
