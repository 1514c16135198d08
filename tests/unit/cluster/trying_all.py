"""Rings found by trying every order and every cut: what the searches must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

from hypothesis import strategies as st

from ringleader.cluster.costs import Footprint
from ringleader.cluster.messages import NodeProfile
from ringleader.cluster.timing import Link, Pace
from ringleader.values import ModelCosts, ModelId, NodeId

GB = 10**9


@dataclass(frozen=True)
class Case:
    """A small model, nodes and rooms. Sizes are whole gigabytes, so that times differ by more than rounding."""

    costs: ModelCosts
    nodes: list[NodeProfile]
    rooms: list[int]
    stages_max: int

    @property
    def size(self) -> Footprint:
        return Footprint(self.costs, 1)

    @property
    def pace(self) -> Pace:
        return Pace(self.costs, self.nodes)


def every_ring(case: Case) -> Iterator[tuple[tuple[int, ...], list[int], int]]:
    """(order, times of the stages, time of a token) of every ring that fits."""
    size, pace, layers = case.size, case.pace, case.costs.layers
    for count in range(1, min(len(case.rooms), layers, case.stages_max) + 1):
        for order in permutations(range(len(case.rooms)), count):
            for inner in combinations(range(1, layers), count - 1):
                runs = list(zip(order, (0, *inner), (*inner, layers), strict=True))
                if all(size.total(start, stop) <= case.rooms[place] for place, start, stop in runs):
                    stages = [pace.stage(*run) for run in runs]
                    yield order, stages, sum(stages) + sum(pace.between(order))


CHIPS = st.sampled_from(["M1", "M4 Pro", "M3 Ultra"])
LATENCIES = st.sampled_from([0.0001, 0.001, 0.005, 0.3])


@st.composite
def cases(draw: st.DrawFn, nodes_max: int = 4, layers_max: int = 5) -> Case:
    layers = draw(st.integers(1, layers_max))
    gigabytes = st.integers(0, 9).map(lambda size: size * GB)
    each = st.lists(gigabytes, min_size=layers, max_size=layers)
    costs = ModelCosts(
        ModelId("m"), "d", "f", tuple(draw(each)), draw(gigabytes), draw(gigabytes), tuple(draw(each)), 4096, 100
    )
    count = draw(st.integers(1, nodes_max))
    linked = draw(st.booleans())
    nodes = [
        NodeProfile(
            node=NodeId(str(a)),
            name=str(a),
            host="",
            chip=draw(CHIPS),
            memory_total_bytes=0,
            memory_free_bytes=0,
            links=tuple(Link(NodeId(str(b)), draw(LATENCIES), 1e9) for b in range(count) if linked and a != b),
        )
        for a in range(count)
    ]
    rooms = draw(st.lists(st.integers(0, 60).map(lambda size: size * GB), min_size=count, max_size=count))
    return Case(costs, nodes, rooms, draw(st.integers(1, 4)))
