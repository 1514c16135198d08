"""Which layer range goes on which node: the plan, and how it is made. Exact and repeatable.

Every way through `make_plan` ends in a plan that fits or in an error with the numbers, never in a plan that
might fit. The arithmetic is in costs.py, the search in cuts.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from ringleader.cluster.costs import Footprint, readable
from ringleader.cluster.cuts import cut, even, order_that_fits
from ringleader.errors import BadRequest, ModelDoesNotFit
from ringleader.values import LayerRange, ModelCosts, ModelId, NodeId, PlanHash

if TYPE_CHECKING:  # messages.py imports Plan from here
    from ringleader.cluster.messages import PlanWish

STAGES_MAX = 8  # each stage adds a hop to every token; the data plane is built and tested up to here

# Left free on each node, beside weights and KV: the shards' interpreters and MLX itself, the activations of
# one prompt chunk, the allocator's slack. None of these grows with the node, so it is a size, not a share:
# 5 % of a 512 GB machine would be 25 GB, a whole model thrown away.
NODE_RESERVE_BYTES = 512 * 10**6


@dataclass(frozen=True, slots=True)
class Stage:
    """One shard's share of a plan. `kv_bytes` is its cache when the planned context is full."""

    node: NodeId
    layers: LayerRange
    weight_bytes: int
    kv_bytes: int

    @property
    def memory_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """A model placed over a ring of shards; stage 0 is the head. Immutable.

    `hash` names it: equal for equal content, `why` left out. `serial` tells two rings of the same shape
    apart, so that a late word about the shards of a dropped one changes nothing in the next (law 3).
    """

    model: ModelId
    digest: str
    layers: int
    context_tokens: int
    stages: tuple[Stage, ...]
    why: str
    serial: int = 0
    streams: int = 1
    hash: PlanHash = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.stages) <= STAGES_MAX:
            raise ValueError(f"a plan has 1 to {STAGES_MAX} stages, not {len(self.stages)}")
        if self.context_tokens < 1 or self.streams < 1:
            raise ValueError("a plan has room for at least one token")
        at = 0
        for stage in self.stages:
            if stage.layers.start != at:
                raise ValueError(f"stage {stage.layers} does not go on at layer {at}")
            at = stage.layers.stop
        if at != self.layers:
            raise ValueError(f"the stages end at layer {at}, the model has {self.layers}")
        object.__setattr__(self, "hash", _hash(self))

    @property
    def kv_tokens(self) -> int:
        """Tokens of all live requests together for which the KV caches were planned."""
        return self.context_tokens * self.streams


class PlanNode(Protocol):
    """A node as the planner sees it; `messages.NodeProfile` is one."""

    @property
    def node(self) -> NodeId: ...
    @property
    def name(self) -> str: ...
    @property
    def memory_free_bytes(self) -> int: ...


def make_plan(costs: ModelCosts, nodes: Sequence[PlanNode], wish: PlanWish, *, serial: int = 0) -> Plan:
    """Place the model as wished. `nodes` has the master first, which wins ties; free memory must already be
    less what was promised to other shards. A wished context longer than the model's own is cut to it.

    Raises:
        BadRequest: the wish itself is wrong (param "layers", "shards" or "context_tokens").
        ModelDoesNotFit: with what is needed, what is there, and what is free on each node.
    """
    context = min(wish.context_tokens, costs.context_max)
    if context < 1:
        raise BadRequest(f"context_tokens is {context}; ask for at least 1", param="context_tokens")
    size = Footprint(costs, context * wish.streams)
    as_given = nodes
    nodes = sorted(nodes, key=lambda node: -node.memory_free_bytes)  # stable: the master stays first among equals
    if wish.layers:
        placed, why = _as_written(costs, size, context, nodes, wish.layers)
    elif wish.shards is not None:
        placed, why = _as_many_shards(costs, size, context, as_given, wish.shards)
    else:
        placed, why = _fewest_nodes(costs, size, context, nodes)
    stages = tuple(
        Stage(node.node, LayerRange(start, stop), size.weights(start, stop), size.kv(start, stop))
        for node, start, stop in placed
    )
    return Plan(costs.model, costs.digest, costs.layers, context, stages, why, serial, wish.streams)


Placed = list[tuple[PlanNode, int, int]]  # node, start, stop; in ring order


def _fewest_nodes(costs: ModelCosts, size: Footprint, context: int, nodes: Sequence[PlanNode]) -> tuple[Placed, str]:
    """The roomiest k nodes for the least k: if any k nodes can hold the model, the roomiest k can."""
    needed = f"{readable(size.total(0, size.layers))} with {context} tokens of context"
    usable = [node for node in nodes if _room(node) > 0]
    for count in range(1, min(len(usable), size.layers, STAGES_MAX) + 1):
        for order in _orders(size, usable[:count]):
            rooms = [_room(node) for node in order]

            def in_proportion(group: int, start: int, stop: int, rooms: list[int] = rooms) -> float | None:
                # The sum of bytes^2 / room is least where bytes are in proportion to room.
                load = size.total(start, stop)
                return load / rooms[group] * load if load <= rooms[group] else None

            cuts = cut(size.layers, count, in_proportion)
            if cuts is not None:
                placed = [(node, *cut) for node, cut in zip(order, cuts, strict=True)]
                names = ", ".join(node.name for node in order)
                if count == 1:
                    return (
                        placed,
                        f"{names} alone holds it: it needs {needed}, {readable(rooms[0])} are free there",
                    )
                return (
                    placed,
                    f"{needed} need {count} nodes; split over {names} in proportion to their free memory",
                )
    raise _does_not_fit(costs, size, context, nodes)


def _as_many_shards(
    costs: ModelCosts, size: Footprint, context: int, nodes: Sequence[PlanNode], shards: int
) -> tuple[Placed, str]:
    """`shards` stages over as many nodes as can take part; as even in layers as the memory allows."""
    if not 1 <= shards <= STAGES_MAX:
        raise BadRequest(f"shards is {shards}; ask for 1 to {STAGES_MAX}", param="shards")
    if shards > size.layers:
        raise BadRequest(
            f"shards is {shards}, but {costs.model} has {size.layers} layers; ask for at most that many",
            param="shards",
        )
    usable = [node for node in nodes if _room(node) > 0]
    roomiest = sorted(usable, key=lambda node: -node.memory_free_bytes)
    for count in range(min(shards, len(usable)), 0, -1):
        each = [shards // count + (place < shards % count) for place in range(count)]
        # As they joined, so that two equal starts give equal rings; the roomiest only where that does not fit.
        for order in chain(_orders(size, usable[:count]), _orders(size, roomiest[:count])):
            rooms = [_room(node) for node in order]

            def evenly(
                group: int, start: int, stop: int, rooms: list[int] = rooms, each: list[int] = each
            ) -> float | None:
                allowed = stop - start >= each[group] and size.total(start, stop) <= rooms[group]
                return sum((b - a) ** 2 for a, b in even(start, stop, each[group])) if allowed else None

            cuts = cut(size.layers, count, evenly)
            if cuts is not None:
                placed = [
                    (node, *part)
                    for node, (start, stop), parts in zip(order, cuts, each, strict=True)
                    for part in even(start, stop, parts)
                ]
                return placed, f"{shards} shards as asked, over {', '.join(node.name for node in order)}"
    raise _does_not_fit(costs, size, context, nodes)


def _as_written(
    costs: ModelCosts,
    size: Footprint,
    context: int,
    nodes: Sequence[PlanNode],
    layers: tuple[tuple[str, int, int], ...],
) -> tuple[Placed, str]:
    """The operator's own ranges, every one checked."""
    if len(layers) > STAGES_MAX:
        raise BadRequest(f"layers has {len(layers)} ranges; at most {STAGES_MAX} shards make a ring", param="layers")
    placed: Placed = []
    at = 0
    for name, start, stop in layers:
        range_ = f"{name}={start}-{stop - 1}"
        if start >= stop or start < 0:
            raise BadRequest(f"layers: {range_} is empty; write first-last, as in {name}=0-14", param="layers")
        if start > at:
            raise BadRequest(f"layers: gap before {range_}: nobody holds {LayerRange(at, start)}", param="layers")
        if start < at:
            raise BadRequest(
                f"layers: overlap at {range_}: the ranges before it end at layer {at - 1}, so it must start "
                f"at {at}; write them in ring order",
                param="layers",
            )
        if stop > size.layers:
            raise BadRequest(
                f"layers: {range_} goes past the end: {costs.model} has layers 0-{size.layers - 1}",
                param="layers",
            )
        placed.append((_named(name, nodes), start, stop))
        at = stop
    if at < size.layers:
        raise BadRequest(f"layers: nobody holds {LayerRange(at, size.layers)} of {costs.model}", param="layers")
    _check_rooms(costs, size, context, nodes, placed)
    return placed, "layers as asked"


def _named(name: str, nodes: Sequence[PlanNode]) -> PlanNode:
    found = [node for node in nodes if node.name == name]
    if len(found) > 1:
        raise BadRequest(f"layers: {len(found)} nodes are called {name!r}; give each its own name", param="layers")
    if not found:
        known = ", ".join(sorted(node.name for node in nodes)) or "none"
        raise BadRequest(f"layers names node {name!r}, which is not here; the nodes are: {known}", param="layers")
    return found[0]


def _check_rooms(costs: ModelCosts, size: Footprint, context: int, nodes: Sequence[PlanNode], placed: Placed) -> None:
    for node in nodes:
        load = sum(size.total(start, stop) for holder, start, stop in placed if holder.node == node.node)
        if load > _room(node):
            raise ModelDoesNotFit(
                f"{costs.model} does not fit as asked: its layers on {node.name} need {readable(load)} with "
                f"{context} tokens of context, {node.name} has {readable(_room(node))} free: short by "
                f"{readable(load - _room(node))}. {_free(nodes)}. "
                f"Give {node.name} fewer layers, or ask for less context."
            )


def _orders(size: Footprint, nodes: Sequence[PlanNode]) -> list[list[PlanNode]]:
    """The roomiest first; then, where a big output head needs another end of the ring, an order that fits."""
    order = order_that_fits(size, [_room(node) for node in nodes])
    return [] if order is None else [list(nodes), [nodes[place] for place in order]]


def _room(node: PlanNode) -> int:
    """What a plan may use of the node's free memory."""
    return max(0, node.memory_free_bytes - NODE_RESERVE_BYTES)


def _does_not_fit(costs: ModelCosts, size: Footprint, context: int, nodes: Sequence[PlanNode]) -> ModelDoesNotFit:
    needed = size.total(0, size.layers)
    free = sum(_room(node) for node in nodes)
    short = f": short by {readable(needed - free)}" if needed > free else ", but no cut between whole layers fits it"
    return ModelDoesNotFit(
        f"{costs.model} does not fit: it needs {readable(needed)} with {context} tokens of context, "
        f"the cluster has {readable(free)} free{short}. {_free(nodes)}. "
        f"The weights alone are {readable(costs.weight_bytes)}. "
        "Ask for less context, add a node, or choose a smaller model."
    )


def _free(nodes: Sequence[PlanNode]) -> str:
    rooms = ", ".join(f"{node.name} {readable(_room(node))}" for node in nodes) or "no node is here"
    return f"Free beside a reserve of {readable(NODE_RESERVE_BYTES)} a node: {rooms}"


def _hash(plan: Plan) -> PlanHash:
    stages = [[s.node, s.layers.start, s.layers.stop, s.weight_bytes, s.kv_bytes] for s in plan.stages]
    content = [plan.model, plan.digest, plan.layers, plan.context_tokens, plan.streams, stages, plan.serial]
    return PlanHash(blake2b(json.dumps(content, separators=(",", ":")).encode(), digest_size=16).hexdigest())
