"""The status page's tables of nodes and links. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ringleader.cli.status_text import cells, padded

UNKNOWN = "-"
LOST = ("lost", "gone")
LOST_SHOWN = 3
LINKS_SHOWN = 6
NAME_COLUMNS = 14
CHIP_COLUMNS = 16
STATE_COLUMNS_MIN = 14


@dataclass(frozen=True, slots=True)
class _Column:
    """`rank`: on a narrow terminal the columns of the greatest leave first."""

    title: str
    told: list[str]
    width: int
    rank: int


def living(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are not lost."""
    return [node for node in nodes if node.get("state") not in LOST]


def node_lines(cluster: dict[str, Any], columns: int) -> list[str]:
    """The table of nodes: those that are here, then the few that were lost last and did not come back."""
    nodes = cluster.get("nodes") or []
    here = living(nodes)
    names = {node.get("name") for node in here}
    lost = [node for node in nodes if node.get("state") in LOST and node.get("name") not in names]
    shown = [*here, *lost[-LOST_SHOWN:]]
    table = _fitting(_columns(shown), columns)
    lines = [" ".join([*(padded(c.title, c.width) for c in table), "STATE"])]
    for place, node in enumerate(shown):
        row = "".join(padded(c.told[place], c.width) + " " for c in table)
        first, *more = textwrap.wrap(_state(node), max(columns - cells(row), STATE_COLUMNS_MIN)) or [UNKNOWN]
        lines += [row + first, *(" " * cells(row) + line for line in more)]
    if len(lost) > LOST_SHOWN:
        lines.append(f"and {len(lost) - LOST_SHOWN} more that were lost")
    return lines


def _columns(nodes: Sequence[dict[str, Any]]) -> list[_Column]:
    found = [
        ("NODE", [str(node.get("name") or node.get("id") or UNKNOWN) for node in nodes], NAME_COLUMNS, 0),
        ("CHIP", [str(node.get("chip") or UNKNOWN) for node in nodes], CHIP_COLUMNS, 2),
        ("MEMORY USED", [_memory(node) for node in nodes], 17, 1),
        ("TEMP", [_temperature(node) for node in nodes], 6, 4),
        ("WEIGHTS", [_weights(node) for node in nodes], 9, 3),
    ]
    return [
        _Column(title, told, min(max(cells(each) for each in (title, *told)), widest), rank)
        for title, told, widest, rank in found
        if rank < 3 or any(each != UNKNOWN for each in told)
    ]


def _fitting(table: list[_Column], columns: int) -> list[_Column]:
    while len(table) > 1 and sum(c.width + 1 for c in table) + STATE_COLUMNS_MIN > columns:
        table.remove(max(table, key=lambda column: column.rank))
    return table


def _state(node: dict[str, Any]) -> str:
    state = str(node.get("state") or "").strip() or UNKNOWN
    if node.get("state") in LOST and node.get("detail"):
        return f"{state}: {node['detail']}"
    if node.get("is_master"):
        return "master" if state == "ok" else f"master, {state}"
    return state


def _memory(node: dict[str, Any]) -> str:
    total, free = node.get("memory_total_bytes"), node.get("memory_free_bytes")
    if not total or free is None or node.get("state") in LOST:
        return UNKNOWN
    return f"{(total - free) / 2**30:5.1f} of {total / 2**30:.0f} GB"


def _temperature(node: dict[str, Any]) -> str:
    told = node.get("temperature_c")
    return UNKNOWN if told is None or node.get("state") in LOST else f"{told:.0f} °C"


def _weights(node: dict[str, Any]) -> str:
    """How fast it goes through weights."""
    told = node.get("bytes_per_s")
    return UNKNOWN if not told or node.get("state") in LOST else f"{told / 1e9:.3g} GB/s"


# ---------------------------------------------------------------- links


def link_lines(cluster: dict[str, Any]) -> list[str]:
    """Between each two nodes the worse of what either measured. Of many those that rings go over, then the slowest."""
    nodes = living(cluster.get("nodes") or [])
    if len(nodes) < 2:
        return []
    ways = _ways(nodes)
    if not ways:
        return ["", "links: not measured yet"]
    used = _used(cluster)
    order = sorted(ways, key=lambda pair: (pair not in used, -ways[pair][0]))
    names = {node.get("id"): str(node.get("name") or node.get("id")) for node in nodes}
    rows = [(" - ".join(padded_name(names[end]) for end in pair), *ways[pair]) for pair in order[:LINKS_SHOWN]]
    width = max(cells(ends) for ends, _, _ in rows)
    lines = ["", f"{padded('LINK', width)}  {'ONE WAY':>9}  {'RATE':>9}"]
    lines += [f"{padded(ends, width)}  {latency_s * 1e3:6.2f} ms  {_rate(rate):>9}" for ends, latency_s, rate in rows]
    if len(ways) > LINKS_SHOWN:
        lines.append(f"and {len(ways) - LINKS_SHOWN} faster ones (--json has all)")
    return lines


def padded_name(name: str) -> str:
    """Cut where it is too long."""
    return padded(name, NAME_COLUMNS) if cells(name) > NAME_COLUMNS else name


def _ways(nodes: Sequence[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float]]:
    """(id, id) of each measured pair to seconds one way and bytes a second."""
    place = {str(node.get("id")): number for number, node in enumerate(nodes)}
    ways: dict[tuple[str, str], tuple[float, float]] = {}
    for node in nodes:
        for link in node.get("links") or []:
            ends = sorted((str(node.get("id")), str(link.get("to"))), key=lambda end: place.get(end, -1))
            pair = (ends[0], ends[1])
            if pair[0] not in place or pair[0] == pair[1]:
                continue
            latency_s, rate = link.get("latency_s") or 0.0, link.get("bytes_per_s") or 0.0
            before = ways.get(pair, (0.0, float("inf")))
            ways[pair] = (max(before[0], latency_s), min(before[1], rate))
    return ways


def _used(cluster: dict[str, Any]) -> set[tuple[str, str]]:
    used: set[tuple[str, str]] = set()
    for ring in cluster.get("rings") or []:
        stages = [str(stage.get("node")) for stage in ring.get("stages") or []]
        for a, b in pairwise([*stages, *stages[:1]]):
            used |= {(a, b), (b, a)}
    return used


def _rate(bytes_per_s: float) -> str:
    bits = bytes_per_s * 8
    return f"{bits / 1e9:.1f} Gb/s" if bits >= 1e9 else f"{bits / 1e6:.0f} Mb/s"
