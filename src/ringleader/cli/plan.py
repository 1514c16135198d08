"""`ringleader plan`: where a model would go, how fast it would be, and why. Nothing is started, nothing is fetched."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ringleader.cli.client import DEFAULT_URL, EXIT_FAILED, connect, run
from ringleader.cli.plan_page import plan_object, plan_page
from ringleader.cluster.fleet import fleet
from ringleader.cluster.messages import NodeProfile, PlanWish
from ringleader.cluster.plan import context_that_fits, make_plan
from ringleader.cluster.timing import Link
from ringleader.config import CONTEXT_DEFAULT, STREAMS_PLANNED, parse_layers
from ringleader.errors import BadRequest, ModelDoesNotFit, UnknownModel
from ringleader.models.described import described_costs, described_names, read_described
from ringleader.models.headers import read_costs
from ringleader.models.remote import read_remote_costs
from ringleader.models.store import HUB_PREFIX, Store
from ringleader.values import ModelCosts, ModelId, NodeId


def plan(
    model: Annotated[
        str,
        typer.Option(
            help="A stored model's name or path; hf:org/name (only its headers are read); a described model's name "
            "or .toml file."
        ),
    ],
    nodes: Annotated[
        Path | None, typer.Option(metavar="FLEET.toml", help="Plan for this described fleet, not the running cluster.")
    ] = None,
    objective: Annotated[
        Literal["latency", "throughput"],
        typer.Option(help="The fastest single stream, or the most tokens of many streams."),
    ] = "latency",
    context: Annotated[int, typer.Option(help="Longest prompt and answer together, in tokens.")] = CONTEXT_DEFAULT,
    streams: Annotated[
        int, typer.Option(help="Requests of full length that must have room at once.")
    ] = STREAMS_PLANNED,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this node out; repeatable.")] = None,
    layers: Annotated[str, typer.Option(help="Place layers by hand, as in a=0-14,b=15-29.")] = "",
    kv_bits: Annotated[int, typer.Option(help="Keep caches in 8 or 4 bits; 0: as they are computed.")] = 0,
    shards: Annotated[int, typer.Option(help="Cut into this many shards (default: what serves best).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: Annotated[str, typer.Option(envvar="RINGLEADER_URL", help="The API of a node of the cluster.")] = DEFAULT_URL,
) -> None:
    """Show where a model would go, how fast it would be, and why."""
    raise typer.Exit(
        run(_plan(model, nodes, (objective, context, streams, exclude, layers, shards, kv_bits), as_json, url))
    )


async def _plan(model: str, file: Path | None, wished: tuple[Any, ...], as_json: bool, url: str) -> int:
    wish = _wish(*wished)
    profiles = fleet(_fleet_table(file)) if file else await _cluster(url)
    _check_names(wish, profiles)
    costs = await asyncio.to_thread(_costs, model)
    fits = context_that_fits(costs, profiles, wish)
    try:
        made = make_plan(costs, profiles, wish)
    except ModelDoesNotFit as error:
        if not as_json and not fits:
            raise
        hint = f"With {fits} tokens of context it fits: --context {fits}." if fits else ""
        if as_json:
            print(json.dumps({"model": model, "error": str(error), "context_that_fits": fits}, indent=2))
            return EXIT_FAILED
        raise ModelDoesNotFit(f"{error} {hint}") from error
    if as_json:
        print(json.dumps(plan_object(made, profiles, wish, fits), indent=2, ensure_ascii=False))
    else:
        print("\n".join(plan_page(made, profiles, wish, fits, costs)))
    return 0


def _wish(
    objective: Literal["latency", "throughput"],
    context: int,
    streams: int,
    exclude: list[str] | None,
    layers: str,
    shards: int,
    kv_bits: int,
) -> PlanWish:
    if streams < 1:
        raise BadRequest(f"--streams is {streams}; ask for at least 1", param="streams")
    return PlanWish(
        context_tokens=context,
        streams=streams,
        shards=shards or None,
        layers=parse_layers(layers),
        objective=objective,
        exclude=tuple(exclude or ()),
        kv_bits=kv_bits,
    )


def _check_names(wish: PlanWish, profiles: list[NodeProfile]) -> None:
    """A standing wish may name a node that is away; who types a name now means one that is here."""
    names = [node.name for node in profiles]
    if missing := [name for name in wish.exclude if name not in names]:
        raise BadRequest(f"--exclude: no node is called {missing[0]!r}; here are: {', '.join(names)}", param="exclude")


def _fleet_table(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"--nodes {file} cannot be read: {error.strerror or error}", param="nodes") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"--nodes {file} is not TOML: {error}", param="nodes") from error


async def _cluster(url: str) -> list[NodeProfile]:
    """The nodes of the running cluster, with the memory that is free beside the models that are loaded."""
    async with connect(url) as node:
        cluster = await node.fetch("/v1/cluster")
    return [_profile(entry) for entry in cluster.get("nodes") or [] if entry.get("state") not in ("lost", "gone")]


def _profile(entry: Mapping[str, Any]) -> NodeProfile:
    return NodeProfile(
        node=NodeId(str(entry.get("id") or entry.get("name"))),
        name=str(entry.get("name") or entry.get("id")),
        host="",
        chip=str(entry.get("chip") or ""),
        memory_total_bytes=int(entry.get("memory_total_bytes") or 0),
        memory_free_bytes=int(entry.get("memory_free_bytes") or 0),
        bytes_per_s=float(entry.get("bytes_per_s") or 0),
        links=tuple(
            Link(NodeId(str(link.get("to"))), float(link.get("latency_s") or 0), float(link.get("bytes_per_s") or 0))
            for link in entry.get("links") or []
        ),
    )


def _costs(model: str) -> ModelCosts:
    if model.endswith(".toml"):
        return read_described(Path(model))
    store = Store()
    try:
        return read_costs(store.resolve(model), store.model_id(model))
    except UnknownModel as error:
        if (described := described_costs(model)) is not None:
            return described
        if model.startswith(HUB_PREFIX):
            name = model.removeprefix(HUB_PREFIX)
            return read_remote_costs(name, ModelId(name))
        raise UnknownModel(
            f"{error} To plan without it: hf:org/name, a .toml file, or one of {', '.join(described_names())}.",
            param="model",
        ) from error
