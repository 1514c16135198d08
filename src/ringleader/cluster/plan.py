"""Which layer range goes on which node: the plan, and how it is made. Exact and repeatable.

Every way through `make_plan` ends in a plan that fits or in an error with the numbers, never in a plan that
might fit. Bytes are in costs.py and rooms.py, times in timing.py, the choice of a ring in choice.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

from ringleader.cluster.choice import Placed, choose, holds
from ringleader.cluster.costs import Footprint, readable, with_draft, with_kv_bits
from ringleader.cluster.cuts import cut, even, order_that_fits
from ringleader.cluster.predicted import Predicted, predict
from ringleader.cluster.rooms import NODE_RESERVE_BYTES, PlanNode, does_not_fit, free_words, room
from ringleader.errors import BadRequest, ModelDoesNotFit
from ringleader.values import Draft, LayerRange, ModelCosts, ModelId, NodeId, PlanHash

if TYPE_CHECKING:  # messages.py imports Plan from here
    from ringleader.cluster.messages import PlanWish

__all__ = [
    "NODE_RESERVE_BYTES",
    "STAGES_MAX",
    "Plan",
    "PlanNode",
    "Predicted",
    "Stage",
    "context_that_fits",
    "make_plan",
    "predicted_now",
]

STAGES_MAX = 8  # each stage adds a hop to every token; the data plane is built and tested up to here


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

    `hash` names it: equal for equal content, `why` and `predicted` left out. `serial` tells two rings of the same shape
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
    kv_bits: int = 0
    draft: Draft | None = None
    predicted: Predicted | None = field(default=None, compare=False)
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


def make_plan(costs: ModelCosts, nodes: Sequence[PlanNode], wish: PlanWish, *, serial: int = 0) -> Plan:
    """Place the model as wished. `nodes` has the master first, which wins ties; free memory must already be
    less what was promised to other shards. A wished context longer than the model's own is cut to it.

    Raises:
        BadRequest: the wish itself is wrong (param "layers", "shards", "exclude" or "context_tokens").
        ModelDoesNotFit: with what is needed, what is there, and what is free on each node.
    """
    costs = with_draft(with_kv_bits(costs, wish.kv_bits), wish.draft)
    context = min(wish.context_tokens, costs.context_max)
    if context < 1:
        raise BadRequest(f"context_tokens is {context}; ask for at least 1", param="context_tokens")
    size = Footprint(costs, context * wish.streams)
    everyone = nodes
    nodes = _taking_part(nodes, wish)
    roomiest = sorted(nodes, key=lambda node: -node.memory_free_bytes)  # stable: the master stays first among equals
    if wish.layers:
        placed, why = _as_written(costs, size, context, roomiest, wish.layers)
    elif wish.shards is not None:
        placed, why = _as_many_shards(costs, size, context, nodes, wish.shards)
    else:
        throughput = wish.objective == "throughput"
        placed, why = choose(costs, size, context, roomiest, stages_max=STAGES_MAX, throughput=throughput)
    if len(nodes) < len(everyone):
        why += f". Excluded as asked: {', '.join(node.name for node in everyone if node not in nodes)}"
    stages = tuple(
        Stage(node.node, LayerRange(start, stop), size.weights(start, stop), size.kv(start, stop))
        for node, start, stop in placed
    )
    predicted = predict(costs, [(node, start, stop) for node, start, stop in placed], wish.streams)
    return Plan(
        costs.model,
        costs.digest,
        costs.layers,
        context,
        stages,
        why,
        serial,
        wish.streams,
        wish.kv_bits,
        wish.draft,
        predicted,
    )


def predicted_now(plan: Plan, costs: ModelCosts, nodes: Sequence[PlanNode]) -> Predicted | None:
    """What a plan that is in use serves by the figures of today; None if one of its nodes is not in `nodes`."""
    here = {node.node: node for node in nodes}
    costs = with_draft(with_kv_bits(costs, plan.kv_bits), plan.draft)
    if any(stage.node not in here for stage in plan.stages):
        return None
    placed = [(here[stage.node], stage.layers.start, stage.layers.stop) for stage in plan.stages]
    return predict(costs, placed, plan.streams)


def context_that_fits(costs: ModelCosts, nodes: Sequence[PlanNode], wish: PlanWish) -> int:
    """The longest context (tokens, at most the model's own) for which a ring of these nodes has room; 0: none."""
    taking_part = _taking_part(nodes, wish)
    kept = with_draft(with_kv_bits(costs, wish.kv_bits), wish.draft)

    def fits(context: int) -> bool:
        if not wish.layers and wish.shards is None:
            return holds(kept, context * wish.streams, taking_part, STAGES_MAX)
        try:
            make_plan(costs, nodes, replace(wish, context_tokens=context))
        except ModelDoesNotFit:
            return False
        return True

    low, high = 0, costs.context_max + 1  # `low` fits (or is 0), `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _taking_part(nodes: Sequence[PlanNode], wish: PlanWish) -> Sequence[PlanNode]:
    """Names that nobody has are no error: a wish stands longer than a node is here."""
    if both := [name for name, _, _ in wish.layers if name in wish.exclude]:
        raise BadRequest(f"{both[0]} is excluded, but layers names it; drop it from one of the two", param="exclude")
    return [node for node in nodes if node.name not in wish.exclude]


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
    usable = [node for node in nodes if room(node) > 0]
    roomiest = sorted(usable, key=lambda node: -node.memory_free_bytes)
    for count in range(min(shards, len(usable)), 0, -1):
        each = [shards // count + (place < shards % count) for place in range(count)]
        # As they joined, so that two equal starts give equal rings; the roomiest only where that does not fit.
        for order in chain(_orders(size, usable[:count]), _orders(size, roomiest[:count])):
            rooms = [room(node) for node in order]

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
    raise does_not_fit(costs, size, context, nodes)


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
        if load > room(node):
            raise ModelDoesNotFit(
                f"{costs.model} does not fit as asked: its layers on {node.name} need {readable(load)} with "
                f"{context} tokens of context, {node.name} has {readable(room(node))} free: short by "
                f"{readable(load - room(node))}. {free_words(nodes)}. "
                f"Give {node.name} fewer layers, or ask for less context."
            )


def _orders(size: Footprint, nodes: Sequence[PlanNode]) -> list[list[PlanNode]]:
    """The roomiest first; then, where a big output head needs another end of the ring, an order that fits."""
    order = order_that_fits(size, [room(node) for node in nodes])
    return [] if order is None else [list(nodes), [nodes[place] for place in order]]


def _hash(plan: Plan) -> PlanHash:
    stages = [[s.node, s.layers.start, s.layers.stop, s.weight_bytes, s.kv_bytes] for s in plan.stages]
    content = [plan.model, plan.digest, plan.layers, plan.context_tokens, plan.streams, stages, plan.serial]
    content += [plan.kv_bits] if plan.kv_bits else []
    content += [plan.draft.reference] if plan.draft else []
    return PlanHash(blake2b(json.dumps(content, separators=(",", ":")).encode(), digest_size=16).hexdigest())
