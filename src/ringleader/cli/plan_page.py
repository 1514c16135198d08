"""What `ringleader plan` prints: a plan as lines for a person, or as one object for a script. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from ringleader.cluster.costs import Footprint, readable, with_kv_bits
from ringleader.cluster.messages import PlanWish
from ringleader.cluster.plan import Plan, Stage
from ringleader.cluster.rooms import PlanNode, room
from ringleader.values import ModelCosts

COLUMNS = 80
NAME_COLUMNS = 16


def plan_page(plan: Plan, nodes: Sequence[PlanNode], wish: PlanWish, fits: int, costs: ModelCosts) -> list[str]:
    """Lines of at most 80 columns, but for what cannot be broken."""
    used = len({stage.node for stage in plan.stages})
    size = f"{plan.context_tokens} tokens of context · room for {plan.streams} such request{'s' * (plan.streams != 1)}"
    size += f" · caches in {plan.kv_bits} bits" if plan.kv_bits else ""
    lines = [
        *textwrap.wrap(f"{plan.model} on {used} of {len(nodes)} node{'s' * (len(nodes) != 1)} · {size}", COLUMNS),
        "",
        *_rows(plan, nodes),
        "",
        *_wrapped("predicted", _predicted(plan)),
        *_wrapped("why", plan.why),
        *_wrapped("context", _context(plan, nodes, fits, costs)),
    ]
    if plan.context_tokens < wish.context_tokens:
        lines += _wrapped("note", f"{wish.context_tokens} tokens were asked for; the model's own limit is less")
    return lines


def plan_object(plan: Plan, nodes: Sequence[PlanNode], wish: PlanWish, fits: int) -> dict[str, Any]:
    """The same for a script. `hop_ms` is the way to the next stage; of the last one, back to the first."""
    names = {node.node: node for node in nodes}
    predicted = plan.predicted
    stage_s, hop_s = (predicted.stage_s, predicted.hop_s) if predicted else ((), ())
    return {
        "model": plan.model,
        "objective": wish.objective,
        "context_tokens": plan.context_tokens,
        "context_that_fits": fits,
        "streams": plan.streams,
        "kv_bits": plan.kv_bits,
        "why": plan.why,
        "predicted": None
        if predicted is None
        else {
            "tokens_per_s": round(predicted.tokens_per_s, 2),
            "aggregate_tokens_per_s": round(predicted.aggregate_tokens_per_s, 2),
            "in_flight": predicted.in_flight,
        },
        "stages": [
            {
                "node": stage.node,
                "name": names[stage.node].name,
                "first_layer": stage.layers.start,
                "last_layer": stage.layers.stop - 1,
                "weight_bytes": stage.weight_bytes,
                "kv_bytes": stage.kv_bytes,
                "room_bytes": room(names[stage.node]),
                "stage_ms": round(stage_s[index] * 1e3, 3) if stage_s else None,
                "hop_ms": round(hop_s[index] * 1e3, 3) if hop_s else None,
            }
            for index, stage in enumerate(plan.stages)
        ],
        "unused": [node.name for node in nodes if node.node not in {stage.node for stage in plan.stages}],
    }


def _rows(plan: Plan, nodes: Sequence[PlanNode]) -> list[str]:
    rows: list[tuple[str, ...]] = [("NODE", "LAYERS", "WEIGHTS", "KV", "ROOM", "STAGE", "TO NEXT")]
    names = {node.node: node for node in nodes}
    for index, stage in enumerate(plan.stages):
        rows.append(_row(plan, index, stage, names[stage.node]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row(plan: Plan, index: int, stage: Stage, node: PlanNode) -> tuple[str, ...]:
    predicted = plan.predicted
    name = node.name if len(node.name) <= NAME_COLUMNS else node.name[: NAME_COLUMNS - 1] + "…"
    times = (
        f"{predicted.stage_s[index] * 1e3:.2f} ms" if predicted else "-",
        f"{predicted.hop_s[index] * 1e3:.2f} ms" if predicted and predicted.hop_s else "-",
    )
    sizes = (readable(stage.weight_bytes), readable(stage.kv_bytes), readable(room(node)))
    return (name, str(stage.layers), *sizes, *times)


def _predicted(plan: Plan) -> str:
    predicted = plan.predicted
    if predicted is None:
        return "nothing"
    alone = f"{predicted.tokens_per_s:.1f} tokens/s for one stream ({predicted.token_s * 1e3:.1f} ms a token)"
    if predicted.in_flight == 1:
        return alone
    return f"{alone}; {predicted.aggregate_tokens_per_s:.1f} tokens/s for {predicted.in_flight} streams together"


def _context(plan: Plan, nodes: Sequence[PlanNode], fits: int, costs: ModelCosts) -> str:
    if fits >= costs.context_max:
        return f"all {fits} tokens that the model can have would fit"
    size = Footprint(with_kv_bits(costs, plan.kv_bits), (fits + 1) * plan.streams)
    needed, free = size.total(0, size.layers), sum(room(node) for node in nodes)
    lack = f" ({readable(needed)} are more than the {readable(free)} that are free)" if needed > free else ""
    return f"up to {fits} tokens would fit; more would not{lack}. The model's own limit is {costs.context_max}"


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, COLUMNS, initial_indent=f"{label:<10} ", subsequent_indent=" " * 11, break_on_hyphens=False
    )
