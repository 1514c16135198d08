"""What a plan may use of each node's memory, and how to say that it is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ringleader.cluster.costs import Footprint, readable
from ringleader.cluster.timing import PacedNode
from ringleader.errors import ModelDoesNotFit
from ringleader.values import ModelCosts

# Left free on each node, beside weights and KV: the shards' interpreters and MLX itself, the activations of
# one prompt chunk, the allocator's slack. None of these grows with the node, so it is a size, not a share:
# 5 % of a 512 GB machine would be 25 GB, a whole model thrown away.
NODE_RESERVE_BYTES = 512 * 10**6


class PlanNode(PacedNode, Protocol):
    """A node as the planner sees it; `messages.NodeProfile` is one."""

    @property
    def name(self) -> str: ...
    @property
    def memory_free_bytes(self) -> int: ...


def room(node: PlanNode) -> int:
    """What a plan may use of the node's free memory."""
    return max(0, node.memory_free_bytes - NODE_RESERVE_BYTES)


def does_not_fit(costs: ModelCosts, size: Footprint, context: int, nodes: Sequence[PlanNode]) -> ModelDoesNotFit:
    """The error for a model that no ring of these nodes can hold, with all numbers."""
    needed = size.total(0, size.layers)
    there = sum(room(node) for node in nodes)
    short = f": short by {readable(needed - there)}" if needed > there else ", but no cut between whole layers fits it"
    return ModelDoesNotFit(
        f"{costs.model} does not fit: it needs {readable(needed)} with {context} tokens of context, "
        f"the cluster has {readable(there)} free{short}. {free_words(nodes)}. "
        f"The weights alone are {readable(costs.weight_bytes)}. "
        "Ask for less context, add a node, or choose a smaller model."
    )


def free_words(nodes: Sequence[PlanNode]) -> str:
    """`Free beside a reserve of 512.0 MB a node: mini 20.1 GB, studio 400.0 GB`."""
    rooms = ", ".join(f"{node.name} {readable(room(node))}" for node in nodes) or "no node is here"
    return f"Free beside a reserve of {readable(NODE_RESERVE_BYTES)} a node: {rooms}"
