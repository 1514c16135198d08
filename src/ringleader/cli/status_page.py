"""The page that `ringleader status` shows, as lines of text: no colour, never wider than it is told. Pure.

Reads `/v1/cluster` as `api.contracts.ClusterView` draws it, and takes what is missing for unknown. Its parts on
nodes and their links are in `status_nodes`.
"""

from __future__ import annotations

import textwrap
from typing import Any

from ringleader.cli.status_nodes import UNKNOWN, link_lines, living, node_lines
from ringleader.cli.status_text import cells, clipped, duration, padded, size

COLUMNS_MIN = 20  # the page is composed for so many; on fewer its lines are cut
NAME_COLUMNS = 14
EVENTS_SHOWN = 5
EVENTS_MAX = 20


def page(cluster: dict[str, Any], columns: int, *, now: float, rows: int | None = None) -> list[str]:
    """The whole page, each line at most `columns` cells wide. `now` in Unix seconds; with `rows`, the events fill
    what the rest leaves of so many lines."""
    wide = max(columns, COLUMNS_MIN)
    lines = [_headline(cluster, wide), *_trouble(cluster, wide), "", *node_lines(cluster, wide)]
    lines += link_lines(cluster)
    for ring in cluster.get("rings") or []:
        lines += ["", *_ring(ring, wide)]
    if not cluster.get("rings"):
        lines += ["", 'no ring yet: the first request for a model makes one (ringleader chat "hello")']
    lines += _queue(cluster.get("queue") or {})
    room = EVENTS_SHOWN if rows is None else min(max(rows - len(lines) - 1, EVENTS_SHOWN), EVENTS_MAX)
    lines += _events(cluster.get("events") or [], wide, now, room)
    return [clipped(line, columns) for line in lines]


def _headline(cluster: dict[str, Any], columns: int) -> str:
    nodes = cluster.get("nodes") or []
    names = {node.get("id"): node.get("name") for node in nodes}
    here, master = len(living(nodes)), cluster.get("master")
    parts = [
        str((cluster.get("cluster") or {}).get("name") or cluster.get("name") or "ringleader"),
        f"{here} node{'' if here == 1 else 's'}",
        f"master {names.get(master) or master}" if master else "no master",
    ]
    if cluster.get("term") is not None:
        parts.append(f"term {cluster['term']}")
    if cluster.get("secure") is not None:
        parts.append("secure" if cluster["secure"] else "not secure (--insecure)")
    right = f"up {duration(cluster['uptime_s'])}" if cluster.get("uptime_s") is not None else ""
    left = " · ".join(parts)
    gap = columns - cells(left) - cells(right)
    return left + " " * gap + right if gap > 0 else left


def _trouble(cluster: dict[str, Any], columns: int) -> list[str]:
    if cluster.get("master") or "master" not in cluster:
        return []
    name = cluster.get("name") or "this node"
    said = f"{name} follows no master at this moment and looks for one. Below is what it hears itself; requests wait."
    return textwrap.wrap(said, columns)


def _ring(ring: dict[str, Any], columns: int) -> list[str]:
    parts = [f"RING {ring.get('model') or UNKNOWN}", str(ring.get("state") or UNKNOWN)]
    if ring.get("context_tokens"):
        parts.append(f"context {ring['context_tokens']}")
    if ring.get("kv_bits"):
        parts.append(f"caches in {ring['kv_bits']} bits")
    if ring.get("draft_model"):
        parts.append(f"drafts by {ring['draft_model']}")
    if ring.get("plan"):
        parts.append(f"plan {str(ring['plan'])[:8]}")
        if ring.get("epoch"):
            parts[-1] += f" epoch {_epoch(int(ring['epoch']))}"
    lines = textwrap.wrap(" · ".join(parts), columns, subsequent_indent="  ")
    stages = ring.get("stages") or []
    layers = max((stage.get("last_layer", 0) + 1 for stage in stages), default=0)
    lines += [_stage(stage, layers, columns) for stage in stages]
    lines += _indented(_paid(ring), columns) + _indented(_cache(ring), columns) + _indented(_predicted(ring), columns)
    why, plan_why = ring.get("why"), ring.get("plan_why")
    if why and why != plan_why:
        lines += _indented(str(why), columns)
    return lines + (_indented(f"why so: {plan_why}", columns) if plan_why else [])


def _epoch(epoch: int) -> str:
    """The number that shards compare has the term in its upper half, and counts links in its last 16 bits."""
    return f"{epoch >> 32}.{epoch & 0xFFFF}" if epoch >> 32 else str(epoch)


def _indented(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, initial_indent="  ", subsequent_indent="  ")


def _stage(stage: dict[str, Any], layers: int, columns: int) -> str:
    """One stage's line; its bar stands where its layers are in the whole model."""
    first, last = int(stage.get("first_layer", 0)), int(stage.get("last_layer", 0))
    digits = len(str(max(layers - 1, 0)))
    head = f"  {padded(str(stage.get('name') or stage.get('node') or UNKNOWN), NAME_COLUMNS)}"
    head += f" {first:>{digits}}-{last:<{digits}} "
    tail = f" {_stage_state(stage)}"
    bar: int = max(columns - cells(head) - 24, 8)
    start, stop = first * bar // max(layers, 1), -(-(last + 1) * bar // max(layers, 1))
    return head + " " * start + "█" * (stop - start) + " " * (bar - stop) + tail


def _stage_state(stage: dict[str, Any]) -> str:
    state = str(stage.get("state") or UNKNOWN)
    progress = stage.get("progress")
    if progress is not None and progress < 1:
        state += f" {progress * 100:.0f}%"
    memory = stage.get("memory_bytes")
    return f"{state}  {size(memory)}" if memory else state


def _paid(ring: dict[str, Any]) -> str:
    parts = [f"{ring.get('running', 0)} running + {ring.get('waiting', 0)} waiting"]
    if ring.get("tokens_per_s") is not None:
        parts.append(f"{ring['tokens_per_s']:.1f} tok/s")
        if not ring["tokens_per_s"] and ring.get("last_tokens_per_s"):
            parts[-1] += f" (when last busy {ring['last_tokens_per_s']:.1f})"
    if ring.get("passes_per_token") is not None:
        parts.append(f"{ring['passes_per_token']:.2f} passes/token")
    requests, tokens = ring.get("served_requests", 0), ring.get("served_tokens", 0)
    parts.append(f"served {requests} requests, {tokens} tokens")
    return " · ".join(parts)


def _cache(ring: dict[str, Any]) -> str:
    """What is kept of earlier prompts and answers, and how much it saved."""
    cache = ring.get("cache") or {}
    if not cache.get("prompt_tokens"):
        return ""
    share = cache.get("cached_tokens", 0) / cache["prompt_tokens"]
    return f"cache {cache.get('kept_tokens', 0)} tokens kept · {share:.0%} of all prompt tokens came from it"


def _predicted(ring: dict[str, Any]) -> str:
    predicted = ring.get("predicted")
    if not predicted:
        return ""
    text = f"predicted {predicted.get('tokens_per_s', 0):.1f} tok/s for one stream"
    if predicted.get("in_flight", 1) > 1:
        text += f", {predicted.get('aggregate_tokens_per_s', 0):.1f} for {predicted['in_flight']} together"
    return text


def _queue(queue: dict[str, Any]) -> list[str]:
    if not queue:
        return []
    figures = f"{queue.get('running', 0)} running, {queue.get('waiting', 0)} waiting"
    return ["", f"queue  {figures}, room for {queue.get('max', UNKNOWN)}"]


def _events(events: list[dict[str, Any]], columns: int, now: float, room: int) -> list[str]:
    """The last ones, in at most `room` lines as far as each is short; whoever tells is named where several do."""
    lines: list[str] = []
    several = len({event.get("node") for event in events}) > 1
    for event in reversed(events):
        age = duration(max(now - (event.get("at") or 0), 0), units=1)
        where = f"{event['node']}: " if several and event.get("node") else ""
        text = f"{age:>6} ago  {where}{event.get('text') or ''}"
        wrapped = textwrap.wrap(text, columns, subsequent_indent=" " * 12)
        if lines and len(lines) + len(wrapped) > room:
            break
        lines = [*wrapped, *lines]
    return ["", *lines] if lines else []
