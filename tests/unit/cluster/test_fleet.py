from __future__ import annotations

from typing import Any

import pytest

from ringleader.cluster.fleet import FREE_SHARE, GIB, LINKS, fleet
from ringleader.cluster.timing import Link
from ringleader.errors import BadRequest
from ringleader.values import NodeId

MINI = {"name": "mini", "chip": "M4 Pro", "memory_gb": 64}
STUDIO = {"name": "studio", "chip": "M3 Ultra", "memory_gb": 512, "free_gb": 480}


def test_a_fleet_is_made_of_its_nodes_and_links() -> None:
    nodes = fleet(
        {
            "link": "10gbe",
            "node": [{**MINI, "count": 2}, STUDIO],
            "links": [
                {"between": ["mini-1", "studio"], "kind": "Thunderbolt5"},
                {"between": ["mini-2", "studio"], "latency_ms": 2, "gbit_per_s": 8},
            ],
        }
    )
    assert [node.name for node in nodes] == ["mini-1", "mini-2", "studio"]
    assert [node.memory_free_bytes for node in nodes] == [int(64 * FREE_SHARE) * GIB] * 2 + [480 * GIB]
    assert nodes[2].links == (
        Link(NodeId("mini-1"), *LINKS["thunderbolt5"]),
        Link(NodeId("mini-2"), 0.002, 1e9),
    )
    assert nodes[0].links[0] == Link(NodeId("mini-2"), *LINKS["10gbe"])


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({}, r"no \[\[node\]\]"),
        ({"nodes": [MINI]}, r"unknown key 'nodes'; known: link, links, node"),
        ({"node": MINI}, r"write \[\[node\]\]"),
        ({"node": [{"chip": "M4"}]}, "write name and chip"),
        ({"node": [{**MINI, "memory_gb": None}]}, "memory_gb is None"),
        ({"node": [{**MINI, "memory_gb": "64"}]}, "memory_gb is '64'"),
        ({"node": [{**MINI, "memory_gb": float("nan")}]}, "memory_gb is nan"),
        ({"node": [{**MINI, "free_gb": 0}]}, "free_gb is 0"),
        ({"node": [{**MINI, "ram": 64}]}, "unknown key 'ram'"),
        ({"node": [{**MINI, "count": 0}]}, "count is 0"),
        ({"node": [{**MINI, "count": 65}]}, "count is 65"),
        ({"node": [{**MINI, "count": 60}, {**STUDIO, "count": 60}]}, "120 nodes; at most 64"),
        ({"node": [{**MINI, "chip": "M4 Ultra"}]}, "'M4 Ultra' is not known .*add gb_per_s"),
        ({"node": [MINI, MINI]}, "two nodes are called 'mini'"),
        ({"node": [MINI], "link": "carrier pigeon"}, "one of thunderbolt5"),
        ({"node": [MINI], "links": [{"between": ["mini", "mini"]}]}, "write two names of nodes"),
        ({"node": [MINI], "links": [{"between": ["mini", "x"]}]}, "write two names of nodes"),
        ({"node": [MINI, STUDIO], "links": [{"between": ["mini", "studio"]}]}, "latency_ms is None"),
    ],
)
def test_what_is_wrong_with_a_fleet_is_named(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint):
        fleet(table)


def test_a_chip_that_is_in_no_table_needs_its_speed() -> None:
    (node,) = fleet({"node": [{"name": "pc", "chip": "EPYC", "memory_gb": 64, "gb_per_s": 300}]})
    assert node.bytes_per_s == 300e9
