"""`ringleader node`: run a node on this machine until ^C."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringleader.config import (
    API_PORT,
    CONTEXT_DEFAULT,
    CONTROL_PORT,
    IDLE_UNLOAD_S,
    JOIN_PORT,
    NodeOptions,
    default_name,
    parse_layers,
)
from ringleader.errors import RingleaderError

if TYPE_CHECKING:  # the node's own import takes a second (gRPC, tokenizers), which `--help` need not wait for
    from ringleader.node.node import Listening


class Objective(StrEnum):
    """What a plan is made for."""

    latency = "latency"
    throughput = "throughput"


EXIT_FAILED = 1
EXIT_USAGE = 2

log = logging.getLogger("ringleader.node")


def node(
    model: Annotated[
        list[str] | None, typer.Option(help="Load this model at the start (name, hf:org/name or path); repeatable.")
    ] = None,
    join: Annotated[str, typer.Option(help="Join a cluster with what `ringleader cluster invite` printed.")] = "",
    name: Annotated[str, typer.Option(help="This node's name; the host's name by default.")] = "",
    peer: Annotated[list[str] | None, typer.Option(help="A node's host:port; repeatable.")] = None,
    mdns: Annotated[bool, typer.Option("--mdns/--no-mdns", help="Find other nodes by multicast DNS.")] = True,
    host: Annotated[str, typer.Option(help="Address at which other nodes reach this one; all by default.")] = "",
    port: Annotated[int, typer.Option(help="Port for other nodes; 0 takes a free one.")] = CONTROL_PORT,
    join_port: Annotated[int, typer.Option(help="Port for nodes that join; 0 takes a free one.")] = JOIN_PORT,
    insecure: Annotated[bool, typer.Option(help="No encryption between nodes; on loopback, for tests.")] = False,
    api_host: Annotated[str, typer.Option(help="Address of the HTTP API.")] = "127.0.0.1",
    api_port: Annotated[int, typer.Option(help="Port of the HTTP API; 0 takes a free one.")] = API_PORT,
    api_key: Annotated[str, typer.Option(envvar="RINGLEADER_API_KEY", help="Key that clients must send.")] = "",
    shards: Annotated[int, typer.Option(help="Cut models into this many shards (default: the fewest nodes).")] = 0,
    layers: Annotated[str, typer.Option(help="Place layers by hand, as in a=0-14,b=15-29.")] = "",
    objective: Annotated[
        Objective, typer.Option(help="What plans aim for: the fastest answer, or the most tokens over many.")
    ] = Objective.latency,
    exclude: Annotated[list[str] | None, typer.Option(help="Node that takes no part; repeatable.")] = None,
    idle_unload: Annotated[
        float, typer.Option(help="Minutes without a request after which a model is unloaded; 0: never.")
    ] = IDLE_UNLOAD_S / 60,
    context: Annotated[int, typer.Option(help="Longest prompt and answer together, in tokens.")] = CONTEXT_DEFAULT,
    nodes: Annotated[int, typer.Option(help="Wait for this many nodes before loading models.")] = 1,
    openai_finish: Annotated[
        bool, typer.Option(help="End calls forced by name with finish_reason stop, as OpenAI does.")
    ] = False,
    home: Annotated[Path | None, typer.Option(envvar="RINGLEADER_HOME", help="Where models are kept.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Where this node keeps its keys; each node on one machine needs its own.")
    ] = None,
    ready_json: Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")] = False,
    leash: Annotated[bool, typer.Option(hidden=True, help="End when standard input closes.")] = False,
) -> None:
    """Run a node. The first makes a cluster, others --join it; any node's API answers for all."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        options = NodeOptions(
            name=name or default_name(),
            host=host,
            control_port=port,
            api_host=api_host,
            api_port=api_port,
            api_key=api_key or None,
            join_port=join_port,
            peers=tuple(peer or ()),
            join=join or None,
            mdns=mdns,
            insecure=insecure,
            models=tuple(model or ()),
            shards=shards or None,
            layers=parse_layers(layers),
            objective=objective.value,
            exclude=tuple(exclude or ()),
            idle_unload_s=idle_unload * 60,
            context=context,
            wait_for=nodes,
            named_finish="stop" if openai_finish else "tool_calls",
            home=home,
            state=state,
        )
    except RingleaderError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    raise typer.Exit(_run(options, lambda listening: _greet(options, listening, ready_json), leash))


def _run(options: NodeOptions, on_ready: Callable[[Listening], None], leash: bool) -> int:
    import uvloop

    code = 0
    try:
        uvloop.run(_until_signal(options, on_ready, leash))
    except* RingleaderError as group:
        for error in _leaves(group):
            typer.echo(f"error: {error}", err=True)
        code = EXIT_FAILED
    return code


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _until_signal(options: NodeOptions, on_ready: Callable[[Listening], None], leash: bool) -> None:
    """Run the node; SIGINT, SIGTERM or a closed leash end it in order, a second signal at once."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # shards are started by exec; its fork handlers only warn
    from ringleader.node.node import run_node

    loop = asyncio.get_running_loop()
    running = asyncio.create_task(run_node(options, on_ready), name="node")
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            os._exit(130)
        asked = True
        log.info("Stopping.")
        running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if leash:
        threading.Thread(target=_watch_leash, args=(loop, stop), name="leash", daemon=True).start()
    try:
        await running
    except asyncio.CancelledError:
        if not asked:
            raise


def _watch_leash(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    while os.read(0, 4096):  # not sys.stdin: a thread that waits in it makes the interpreter's end a fatal error
        pass
    loop.call_soon_threadsafe(stop)


def _greet(options: NodeOptions, listening: Listening, as_json: bool) -> None:
    if as_json:
        line = {"node": listening.node, "api": listening.api, "control": listening.control}
        typer.echo(json.dumps(line))
        sys.stdout.flush()
    for text in _greeting(options.name, listening):
        log.info("%s", text)


def _greeting(name: str, listening: Listening) -> list[str]:
    """What its owner reads first: what this start did, where the API is, and what to do next."""
    who, cluster = f"Node {name} ({listening.machine})", f'the cluster "{listening.cluster}"'
    first = {
        "made": f"{who} made {cluster}.",
        "joined": f"{who} has joined {cluster}. Next time just: ringleader node",
        "member": f"{who} is up, in {cluster}.",
        None: f"{who} is up.",
    }[listening.came]
    lines = [first, f"API {listening.api}   Who is here: ringleader status"]
    return [*lines, "Let another Mac in: ringleader cluster invite"] if listening.invites else lines
