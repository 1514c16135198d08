"""How long a token takes: on each node for each layer, and between nodes. In whole picoseconds.

Whole numbers make sums exact, so that two ways of equal time compare equal and plans are repeatable. The three
constants of the model were fitted on single Macs and tried on rings: docs/benchmarks/predictions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from ringleader.cluster.chips import bandwidth
from ringleader.values import ModelCosts, NodeId

PS = 10**12

EFFICIENCY = 0.85  # share of a chip's memory bandwidth that decoding attains
LAYER_S = 0.10e-3  # beside reading its weights: kernels are started, and attention waits for each other
SPARSE_LAYER_S = 0.26e-3  # the same for a layer of experts: routing, sorting, gathering
STAGE_S = 0.4e-3  # a shard takes a frame, starts the evaluation, sends what comes of it (measured: first-ring.md)
UNKNOWN_BYTES_PER_S = 60e9  # a chip that is in no table: as an ordinary computer with two memory channels
BYTES_PER_S_MIN, BYTES_PER_S_MAX = 1e7, 1e14  # what is told outside of this was measured wrongly
HOP_S_MAX = 10.0  # a link so slow is never chosen where another can be

ACTIVATION_BYTES = 2  # of one number of a frame


@dataclass(frozen=True, slots=True)
class Link:
    """How a node reaches another, as measured from its side: one way, half of a small message's round trip."""

    to: NodeId
    latency_s: float
    bytes_per_s: float


UNMEASURED = Link(NodeId(""), 0.3e-3, 117e6)  # gigabit Ethernet: what can be expected of any two Macs


class PacedNode(Protocol):
    """What a node tells of its speed; `bytes_per_s` 0 is "not measured", a missing link likewise."""

    @property
    def node(self) -> NodeId: ...
    @property
    def chip(self) -> str: ...
    @property
    def bytes_per_s(self) -> float: ...
    @property
    def links(self) -> tuple[Link, ...]: ...


class Pace:
    """Times of one model on given nodes; nodes are spoken of by their place in `nodes`."""

    def __init__(self, costs: ModelCosts, nodes: Sequence[PacedNode]) -> None:
        self.layers = costs.layers
        self._nodes = nodes
        self._place = {node.node: place for place, node in enumerate(nodes)}
        frame = costs.hidden_size * ACTIVATION_BYTES
        self.prefix = [_prefix(costs, _bytes_per_s(node)) for node in nodes]
        self.tail = [round(costs.tail_bytes / _bytes_per_s(node) * PS) for node in nodes]
        self.stage_ps = round(STAGE_S * PS)
        links = [[self._link(a, b) for b in nodes] for a in nodes]
        self.hops = [[_hop(link, frame) for link in row] for row in links]
        self.returns = [[_hop(link, 0) for link in row] for row in links]

    def stage(self, place: int, start: int, stop: int) -> int:
        """A shard's own time for one token through layers `start` to `stop - 1`, the output head included."""
        times = self.prefix[place]
        tail = self.tail[place] if stop == self.layers else 0
        return times[stop] - times[start] + tail + self.stage_ps

    def between(self, order: Sequence[int]) -> list[int]:
        """The hops of a ring in this order: to the next shard, and from the last back to the first.

        A node may hold several shards; what it sends to itself costs no wire. One shard alone has no hop.
        """
        if len(order) < 2:
            return []
        hops = [0 if a == b else self.hops[a][b] for a, b in pairwise(order)]
        return [*hops, 0 if order[-1] == order[0] else self.returns[order[-1]][order[0]]]

    def _link(self, a: PacedNode, b: PacedNode) -> Link | None:
        if a.node == b.node:
            return None
        there = next((link for link in a.links if link.to == b.node), None)
        back = next((link for link in b.links if link.to == a.node), None)
        return there or back or UNMEASURED


def _bytes_per_s(node: PacedNode) -> float:
    if BYTES_PER_S_MIN <= node.bytes_per_s <= BYTES_PER_S_MAX:
        return node.bytes_per_s
    known = bandwidth(node.chip)
    return known * EFFICIENCY if known else UNKNOWN_BYTES_PER_S


def _prefix(costs: ModelCosts, bytes_per_s: float) -> tuple[int, ...]:
    active = costs.active_bytes or costs.layer_bytes
    each = (
        round((read / bytes_per_s + (SPARSE_LAYER_S if read < held else LAYER_S)) * PS)
        for read, held in zip(active, costs.layer_bytes, strict=True)
    )
    return (0, *accumulate(each))


def _hop(link: Link | None, size: int) -> int:
    if link is None:
        return 0
    if not (link.latency_s >= 0 and link.bytes_per_s > 0):  # a peer's word; nor is it a number if it is NaN
        link = UNMEASURED
    return round(min(link.latency_s + size / link.bytes_per_s, HOP_S_MAX) * PS)
