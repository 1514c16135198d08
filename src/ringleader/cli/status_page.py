"""The page that `ringleader status` shows, as lines of text: no colour, never wider than it is told. Pure.

Reads `/v1/cluster` as `api.contracts.ClusterView` draws it, and takes what is missing for unknown.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

COLUMNS_MIN = 40
NAME_COLUMNS = 14
CHIP_COLUMNS = 14
MEMORY_COLUMNS = 18
STATE_COLUMNS_MIN = 12
EVENTS_SHOWN = 5
UNKNOWN = "-"


def page(cluster: dict[str, Any], columns: int) -> list[str]:
    """The whole page, each line at most `columns` (but at least 40) cells wide."""
    columns = max(columns, COLUMNS_MIN)
    lines = [_headline(cluster, columns), "", *_nodes(cluster, columns)]
    for ring in cluster.get("rings") or []:
        lines += ["", *_ring(ring, columns)]
    if not cluster.get("rings"):
        lines += ["", 'no ring yet: the first request for a model makes one (ringleader chat "hello")']
    lines += _queue(cluster.get("queue") or {}) + _events(cluster.get("events") or [], columns)
    return [_clipped(line, columns) for line in lines]


def _headline(cluster: dict[str, Any], columns: int) -> str:
    nodes = cluster.get("nodes") or []
    names = {node.get("id"): node.get("name") for node in nodes}
    master = cluster.get("master")
    parts = [
        str(cluster.get("name") or "ringleader"),
        f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}",
        f"master {names.get(master) or master}" if master else "no master",
    ]
    right = f"up {duration(cluster['uptime_s'])}" if cluster.get("uptime_s") is not None else ""
    left = " · ".join(parts)
    gap = columns - cell_len(left) - cell_len(right)
    return left + " " * gap + right if gap > 0 else left


def _nodes(cluster: dict[str, Any], columns: int) -> list[str]:
    lines = [_columns(["NODE", "CHIP", "MEMORY USED", "STATE"])]
    for node in cluster.get("nodes") or []:
        state = str(node.get("state") or "").strip() or UNKNOWN
        if node.get("is_master"):
            state = "master" if state == "ok" else f"master, {state}"
        row = _columns([node.get("name"), node.get("chip"), _memory(node), ""])
        first, *more = textwrap.wrap(state, max(columns - cell_len(row), STATE_COLUMNS_MIN))
        lines += [row + first, *(" " * cell_len(row) + line for line in more)]
    return lines


def _columns(cells: Sequence[Any]) -> str:
    widths = (NAME_COLUMNS, CHIP_COLUMNS, MEMORY_COLUMNS)
    fixed = [_padded(str(cell or UNKNOWN), width) for cell, width in zip(cells[:-1], widths, strict=True)]
    return " ".join([*fixed, str(cells[-1])])


def _memory(node: dict[str, Any]) -> str:
    total, free = node.get("memory_total_bytes"), node.get("memory_free_bytes")
    if not total or free is None:
        return UNKNOWN
    return f"{(total - free) / 2**30:6.1f} of {total / 2**30:.0f} GB"


def _ring(ring: dict[str, Any], columns: int) -> list[str]:
    parts = [f"RING {ring.get('model') or UNKNOWN}", str(ring.get("state") or UNKNOWN)]
    if ring.get("context_tokens"):
        parts.append(f"context {ring['context_tokens']}")
    if ring.get("plan"):
        parts.append(f"plan {str(ring['plan'])[:8]} epoch {ring.get('epoch', UNKNOWN)}")
    lines = textwrap.wrap(" · ".join(parts), columns, subsequent_indent="  ")
    if ring.get("why"):
        lines += textwrap.wrap(str(ring["why"]), columns, initial_indent="  ", subsequent_indent="  ")
    stages = ring.get("stages") or []
    layers = max((stage.get("last_layer", 0) + 1 for stage in stages), default=0)
    lines += [_stage(stage, layers, columns) for stage in stages]
    return [*lines, *_paid(ring, columns)]


def _stage(stage: dict[str, Any], layers: int, columns: int) -> str:
    """One stage's line; its bar stands where its layers are in the whole model."""
    first, last = int(stage.get("first_layer", 0)), int(stage.get("last_layer", 0))
    digits = len(str(max(layers - 1, 0)))
    head = f"  {_padded(str(stage.get('name') or stage.get('node') or UNKNOWN), NAME_COLUMNS)}"
    head += f" {first:>{digits}}-{last:<{digits}} "
    tail = f" {_stage_state(stage)}"
    bar: int = max(columns - cell_len(head) - 24, 8)
    start, stop = first * bar // max(layers, 1), -(-(last + 1) * bar // max(layers, 1))
    return head + " " * start + "█" * (stop - start) + " " * (bar - stop) + tail


def _stage_state(stage: dict[str, Any]) -> str:
    state = str(stage.get("state") or UNKNOWN)
    progress = stage.get("progress")
    if progress is not None and progress < 1:
        state += f" {progress * 100:.0f}%"
    memory = stage.get("memory_bytes")
    return f"{state}  {size(memory)}" if memory else state


def _paid(ring: dict[str, Any], columns: int) -> list[str]:
    parts = [f"{ring.get('running', 0)} running + {ring.get('waiting', 0)} waiting"]
    if ring.get("tokens_per_s") is not None:
        parts.append(f"{ring['tokens_per_s']:.1f} tok/s")
    if ring.get("passes_per_token") is not None:
        parts.append(f"{ring['passes_per_token']:.2f} passes/token")
    requests, tokens = ring.get("served_requests", 0), ring.get("served_tokens", 0)
    parts.append(f"served {requests} requests, {tokens} tokens")
    return textwrap.wrap(" · ".join(parts), columns, initial_indent="  ", subsequent_indent="  ")


def _queue(queue: dict[str, Any]) -> list[str]:
    if not queue:
        return []
    figures = f"{queue.get('running', 0)} running, {queue.get('waiting', 0)} waiting"
    return ["", f"queue  {figures}, room for {queue.get('max', UNKNOWN)}"]


def _events(events: list[dict[str, Any]], columns: int) -> list[str]:
    lines: list[str] = [""] if events else []
    for event in events[-EVENTS_SHOWN:]:
        at = time.strftime("%H:%M:%S", time.localtime(event.get("at") or 0))
        lines += textwrap.wrap(f"{at}  {event.get('text')}", columns, subsequent_indent=" " * 10)
    return lines


def duration(seconds: float) -> str:
    """The two largest units that count."""
    whole = int(seconds)
    units = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((index for index, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count or unit == "s")


def size(count: float) -> str:
    """Bytes in the unit that leaves one to four digits."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _padded(text: str, cells: int) -> str:
    return set_cell_size(text, cells) if cell_len(text) <= cells else set_cell_size(text, cells - 1) + "…"


def _clipped(line: str, cells: int) -> str:
    printable = "".join(char if char.isprintable() else " " for char in line).rstrip()
    return printable if cell_len(printable) <= cells else set_cell_size(printable, cells - 1) + "…"
