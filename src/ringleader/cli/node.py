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
from typing import TYPE_CHECKING, Any

import typer

from ringleader.cli import node_options as o
from ringleader.cli.logs import log_to_stderr
from ringleader.config import (
    API_PORT,
    CONTEXT_DEFAULT,
    CONTROL_PORT,
    IDLE_UNLOAD_S,
    JOIN_PORT,
    LOADING_WAIT_S,
    QUEUE_MAX,
    RESPONSES_KEPT,
    NodeOptions,
)
from ringleader.errors import RingleaderError

if TYPE_CHECKING:  # the node's own import takes a second (gRPC, tokenizers), which `--help` need not wait for
    from ringleader.node.node import Listening

EXIT_FAILED = 1
EXIT_USAGE = 2

log = logging.getLogger("ringleader.node")


def node(
    asked: typer.Context,
    model: o.Models = None,
    join: o.Join = None,
    name: o.Name = "",
    peer: o.Peers = None,
    mdns: o.Mdns = True,
    host: o.Host = "",
    port: o.Port = CONTROL_PORT,
    join_port: o.JoinPort = JOIN_PORT,
    insecure: o.Insecure = False,
    api_host: o.ApiHost = "127.0.0.1",
    api_port: o.ApiPort = API_PORT,
    api_key: o.ApiKey = "",
    api_tls: o.ApiTls = False,
    api_cert: o.ApiCert = None,
    cors: o.Cors = None,
    keep_responses: o.KeepResponses = RESPONSES_KEPT,
    shards: o.Shards = 0,
    layers: o.LayersByHand = "",
    objective: o.Aim = o.Objective.latency,
    exclude: o.Excluded = None,
    idle_unload: o.IdleUnload = IDLE_UNLOAD_S / 60,
    queue: o.Queue = QUEUE_MAX,
    loading_wait: o.LoadingWait = LOADING_WAIT_S,
    kv_bits: o.KvBits = 0,
    context: o.Context = CONTEXT_DEFAULT,
    wire: o.WireCoding = o.Wire.same,
    nodes: o.Nodes = 1,
    openai_finish: o.OpenaiFinish = False,
    alias: o.Alias = None,
    speculation: o.Speculation = True,
    draft_model: o.DraftModel = "",
    home: o.Home = None,
    state: o.State = None,
    trace: o.Trace = None,
    ready_json: o.ReadyJson = False,
    log_json: o.LogJson = False,
    leash: o.Leash = False,
) -> None:
    """Run a node. The first makes a cluster, others --join it; any node's API answers for all."""
    log_to_stderr(log_json)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        options = o.options_of(asked.params)
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
