"""The shard process: loads its range, says on standard output where it listens, serves until its parent is gone.

Standard output carries one JSON object a line for the supervisor: {"progress": 0.4}, then {"ready": {...}} or
{"failed": "..."}. Standard input is a leash: when it closes, the parent has died and so must this process.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringleader.errors import ModelFault, NotTrusted
from ringleader.shard.batcher import PROGRESS_DEADLINE_S
from ringleader.shard.pace import Pace
from ringleader.trust.credentials import Credentials, load
from ringleader.values import LayerRange

EXIT_MODEL_FAULT = 3  # the model cannot be loaded: trying again will not help
EXIT_ORPHANED = 4
SWITCH_S = 0.0005  # the computing thread builds graphs in Python for milliseconds; frames must not wait for all of it
PR_SET_PDEATHSIG = 1  # linux/prctl.h

log = logging.getLogger("ringleader.shard")


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """What the supervisor says to a shard. `listen` is host:port, port 0 for any free one.

    `credentials` is the state directory of the node; without one, connections are in the clear. `digest` names the
    model's files, so that another plan of the same layers may take the shard over. With a `pace` it takes the time of
    another machine; `trace` is the file that its passes are to be merged into. `kv_bits` 8 or 4 quantises caches.
    `draft_model` is the directory of a small model that makes drafts, should this shard be its ring's head.
    """

    directory: Path
    layers: LayerRange
    layer_count: int
    plan: str
    listen: str
    kv_tokens_max: int
    progress_deadline_s: float = PROGRESS_DEADLINE_S
    credentials: Path | None = None
    digest: str = ""
    pace: Pace | None = None
    trace: Path | None = None
    kv_bits: int = 0
    draft_model: Path | None = None


def run(options: ShardOptions) -> int:
    """Serve until the parent dies or SIGTERM comes; the exit code."""
    _tie_to_parent()
    sys.setswitchinterval(SWITCH_S)
    try:
        import uvloop

        return uvloop.run(_serve(options))
    except (ModelFault, NotTrusted) as error:
        _say(failed=str(error))
        log.error("%s", error)
        return EXIT_MODEL_FAULT


async def _serve(options: ShardOptions) -> int:
    from ringleader.shard.drafter import try_drafter
    from ringleader.shard.service import ShardService
    from ringleader.shard.trace import Tracer

    credentials = _credentials(options)

    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mlx")
    loop = asyncio.get_running_loop()
    engine = await loop.run_in_executor(thread, _load, options)
    drafts = None
    if options.draft_model is not None:
        drafts = await loop.run_in_executor(None, try_drafter, options.draft_model, options.directory)
    service = ShardService(
        engine,
        thread,
        options.plan,
        options.layers,
        options.kv_tokens_max,
        options.progress_deadline_s,
        credentials,
        options.digest,
        options.layer_count,
        options.pace,
        None if options.trace is None else Tracer(options.trace, str(options.layers)),
        options.kv_bits,
        drafts,
    )
    server, address = await open_server(service, options.listen, credentials)
    memory = await loop.run_in_executor(thread, engine.memory_bytes)
    _say(ready={"address": address, "memory_bytes": memory, "pid": os.getpid()})
    await server.wait_for_termination()
    return 0


def _credentials(options: ShardOptions) -> Credentials | None:
    if options.credentials is None:
        return None
    found = load(options.credentials)
    if found is None:
        raise NotTrusted(f"{options.credentials} holds no membership of a cluster")
    return found


async def open_server(service: Any, listen: str, credentials: Credentials | None = None) -> tuple[Any, str]:
    """Serve a `RingServicer` at host:port (port 0 takes a free one): the gRPC server, and the address it got.

    With credentials it hears only members of their cluster.
    """
    from ringleader.trust.channels import GuardedServer
    from ringleader.v1 import ring_pb2_grpc as rpc
    from ringleader.wire import RING_MESSAGE_BYTES_MAX, channel_options

    guarded = GuardedServer(channel_options(RING_MESSAGE_BYTES_MAX), credentials)
    rpc.add_RingServicer_to_server(service, guarded.server)
    port = guarded.listen(listen)
    await guarded.server.start()
    return guarded.server, f"{listen.rpartition(':')[0]}:{port}"


def _load(options: ShardOptions) -> Any:
    """On the MLX thread: the range's weights, and the tokenizer on the tail."""
    from ringleader.shard.engine import Engine
    from ringleader.shard.kv_bits import keep_in_bits
    from ringleader.shard.loader import load_slice
    from ringleader.shard.riding import ride_of
    from ringleader.shard.slot_cost import slot_tokens
    from ringleader.shard.stepping import steps_back
    from ringleader.tokenizer import load_tokenizer

    part = load_slice(
        options.directory, options.layers, options.layer_count, lambda done: _say(progress=round(done, 3))
    )
    tokenizer = None
    if part.tail:
        tokenizer = load_tokenizer(options.directory)
        _ = tokenizer.grammar_view  # a second's work; not in the first request
    if options.kv_bits:
        keep_in_bits(part, options.kv_bits)
    return Engine(part, tokenizer, ride=ride_of(part), steps_back=steps_back(part), slot_tokens=slot_tokens(part))


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _tie_to_parent() -> None:
    """No orphan, ever: end when standard input closes, however the parent died."""

    def watch() -> None:
        while os.read(0, 4096):  # not sys.stdin: a thread that waits in it makes the interpreter's end a fatal error
            pass
        os._exit(EXIT_ORPHANED)

    threading.Thread(target=watch, name="leash", daemon=True).start()
    if sys.platform == "linux":  # the kernel also ends a shard that is stopped and cannot read its leash
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
