"""Fleets that are only described: nodes and links as a person writes them down, made into the planner's nodes.

The decoded table comes in; whoever has a file reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringleader.cluster.chips import BANDWIDTH, bandwidth
from ringleader.cluster.messages import NodeProfile
from ringleader.cluster.timing import Link
from ringleader.errors import BadRequest
from ringleader.values import Json, NodeId

NODES_MAX = 64
GIB = 2**30
FREE_SHARE = 0.75  # what macOS lets the GPU have of the memory, unless iogpu.wired_limit_mb says more

# kind -> seconds one way, bytes a second; through TCP and all its software, as between two programs
LINKS: dict[str, tuple[float, float]] = {
    "thunderbolt5": (0.30e-3, 6e9),  # 80 Gb/s on the wire; the latency is what IP over Thunderbolt is reported with
    "thunderbolt4": (0.30e-3, 2.5e9),  # 40 Gb/s
    "10gbe": (0.20e-3, 1.17e9),
    "2.5gbe": (0.25e-3, 290e6),
    "1gbe": (0.30e-3, 117e6),
    "wifi": (3.0e-3, 40e6),
}
NODE_KEYS = {"name", "chip", "memory_gb", "free_gb", "gb_per_s", "count"}
LINK_KEYS = {"between", "kind", "latency_ms", "gbit_per_s"}


def fleet(table: Mapping[str, Json]) -> list[NodeProfile]:
    """The nodes of a fleet: `link` (a kind, for all pairs), `[[node]]` and `[[link]]` tables.

    Raises:
        BadRequest: a key is missing, unknown or wrong; names it and says what is possible.
    """
    _known("the fleet", table, {"link", "node", "links"})
    nodes = [node for entry in _list(table, "node") for node in _nodes(entry)]
    if not nodes:
        raise BadRequest("the fleet has no [[node]]", param="node")
    if len(nodes) > NODES_MAX:
        raise BadRequest(f"the fleet has {len(nodes)} nodes; at most {NODES_MAX}", param="node")
    names = [node.name for node in nodes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadRequest(f"two nodes are called {twice!r}; give each its own name", param="node")
    usual = _kind("link", table.get("link", "1gbe"))
    links = {(a, b): usual for a in names for b in names if a != b}
    for entry in _list(table, "links"):
        pair, figures = _link(entry, names)
        links[pair] = links[pair[::-1]] = figures
    return [
        replace(node, links=tuple(Link(NodeId(b), *figures) for (a, b), figures in links.items() if a == node.name))
        for node in nodes
    ]


def _nodes(entry: Mapping[str, Json]) -> list[NodeProfile]:
    _known("[[node]]", entry, NODE_KEYS)
    name, chip, count = entry.get("name"), entry.get("chip"), entry.get("count", 1)
    if not isinstance(name, str) or not name or not isinstance(chip, str):
        raise BadRequest('[[node]]: write name and chip, as in name = "studio", chip = "M3 Ultra"', param="node")
    if type(count) is not int or not 1 <= count <= NODES_MAX:
        raise BadRequest(f"[[node]] {name}: count is {count!r}; write 1 to {NODES_MAX}", param="count")
    memory = _number(name, entry, "memory_gb")
    free = _number(name, entry, "free_gb") if "free_gb" in entry else memory * FREE_SHARE
    measured = _number(name, entry, "gb_per_s") * 1e9 if "gb_per_s" in entry else 0.0
    if not measured and bandwidth(chip) is None:
        raise BadRequest(
            f"[[node]] {name}: the chip {chip!r} is not known ({', '.join(BANDWIDTH)}); add gb_per_s, the rate at "
            "which it reads weights",
            param="chip",
        )
    names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
    return [
        NodeProfile(
            node=NodeId(each),
            name=each,
            host="",
            chip=chip,
            memory_total_bytes=int(memory * GIB),
            memory_free_bytes=int(free * GIB),
            bytes_per_s=measured,
        )
        for each in names
    ]


def _link(entry: Mapping[str, Json], names: Sequence[str]) -> tuple[tuple[str, str], tuple[float, float]]:
    _known("[[links]]", entry, LINK_KEYS)
    between = entry.get("between")
    if not isinstance(between, list) or len(between) != 2 or not set(between) <= set(names) or between[0] == between[1]:
        raise BadRequest(
            f"[[links]]: between is {between!r}; write two names of nodes, of: {', '.join(names)}", param="between"
        )
    if "kind" in entry:
        return (between[0], between[1]), _kind("kind", entry["kind"])
    where = "-".join(between)
    return (between[0], between[1]), (
        _number(where, entry, "latency_ms") / 1e3,
        _number(where, entry, "gbit_per_s") * 1e9 / 8,
    )


def _kind(key: str, kind: Json) -> tuple[float, float]:
    if not isinstance(kind, str) or kind.lower() not in LINKS:
        raise BadRequest(f"{key} is {kind!r}; write one of {', '.join(LINKS)}", param=key)
    return LINKS[kind.lower()]


def _number(where: str, entry: Mapping[str, Json], key: str) -> float:
    found: Json = entry.get(key)
    if type(found) not in (int, float) or not math.isfinite(found) or not 0 < found < 10**6:
        raise BadRequest(f"{where}: {key} is {found!r}; write a number above 0", param=key)
    return float(found)


def _list(table: Mapping[str, Json], key: str) -> list[Mapping[str, Json]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadRequest(f"{key} is not a list of tables; write [[{key}]]", param=key)
    return found


def _known(where: str, table: Mapping[str, Json], keys: set[str]) -> None:
    if odd := sorted(set(table) - keys):
        raise BadRequest(f"{where} has the unknown key {odd[0]!r}; known: {', '.join(sorted(keys))}", param=odd[0])
