"""Starts shard processes, watches them, ends them. No orphan, ever: a shard dies with the pipe to this process.

Restarting is the cluster's decision; this only tells what happened.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied, ShardMadeProgress
from ringleader.net.addresses import join
from ringleader.shard.process import EXIT_MODEL_FAULT
from ringleader.values import LayerRange, PlanHash

READY_DEADLINE_S = 120.0  # without a word: reading one layer from a slow disk takes seconds, not minutes
STOP_DEADLINE_S = 3.0  # between SIGTERM, at which a shard that is well ends at once, and SIGKILL
LAST_LINES = 5  # of a dead shard's log that go into the reason
SHARD_PROGRAM = (sys.executable, "-m", "ringleader", "shard")
ANY_HOST = ("0.0.0.0", "::")  # every interface: no address that others could dial
LINE_BYTES_MAX = 1 << 20  # of a shard's output; a longer line is dropped
# OpenBLAS's threads spin for 2^26 cycles after a product: while one shard of a machine computes, its neighbour's
# idle threads take its cores. 2^16 (25 us) bridges the gaps inside a pass and not those between passes.
OPENBLAS_SPIN_LOG2_CYCLES = "16"

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class ShardStart:
    """One shard to start. `host` is where it listens; `kv_tokens_max` the plan's KV budget in tokens; `digest` names
    the model's files, so that another plan of the same layers may take the shard over. `kv_bits` as in a plan.
    `draft_model` is the directory of a small model that makes drafts."""

    plan: PlanHash
    index: int
    directory: Path
    layers: LayerRange
    layer_count: int
    host: str
    kv_tokens_max: int
    digest: str = ""
    kv_bits: int = 0
    draft_model: Path | None = None

    @property
    def key(self) -> tuple[PlanHash, int]:
        return self.plan, self.index


@dataclass(slots=True)
class _Running:
    """One shard under supervision. `shard` carries its present name."""

    shard: ShardStart
    task: asyncio.Task[None] | None = None
    process: Process | None = None
    stopping: bool = False


class Supervisor:
    """The shard processes of one node. `tell` gets ShardMadeProgress, ShardBecameReady and ShardDied.

    `credentials` is the state directory that shards prove themselves with. Shards that listen on all interfaces are
    told of at the host that `reached_at` gives at that moment.
    """

    def __init__(
        self,
        node_name: str,
        tell: Callable[[Event], None],
        program: Sequence[str] = SHARD_PROGRAM,
        *,
        credentials: Path | None = None,
        reached_at: Callable[[], str] = lambda: "127.0.0.1",
    ) -> None:
        self._name = node_name
        self._tell = tell
        self._program = program
        self._credentials = credentials
        self._reached_at = reached_at
        self._running: dict[tuple[PlanHash, int], _Running] = {}

    def start(self, shard: ShardStart) -> None:
        """Start a shard; what becomes of it is told. An order for one that runs already changes nothing."""
        if shard.key not in self._running:
            running = self._running[shard.key] = _Running(shard)
            running.task = asyncio.create_task(self._watch(running), name=f"shard {shard.layers}")

    def rename(self, plan: PlanHash, index: int, new_plan: PlanHash, new_index: int) -> None:
        """The shard (`plan`, `index`) is told of as (`new_plan`, `new_index`) from now on; an unknown one is not."""
        if (running := self._running.pop((plan, index), None)) is not None:
            running.shard = replace(running.shard, plan=new_plan, index=new_index)
            self._running[running.shard.key] = running

    async def stop(self, plan: PlanHash, index: int) -> None:
        """End a shard and wait until it is gone. Its end is told as any other."""
        if (running := self._running.get((plan, index))) is None or running.task is None:
            return
        running.stopping = True  # it may not have a process yet
        if running.process is not None:
            await _end(running.process)
        await asyncio.wait({running.task})

    async def stop_all(self) -> None:
        """End every shard at once."""
        await asyncio.gather(*(self.stop(plan, index) for plan, index in list(self._running)))

    async def _watch(self, running: _Running) -> None:
        tail: deque[str] = deque(maxlen=LAST_LINES)
        reason, at_fault = "", False
        process: Process | None = None
        try:
            process = running.process = await self._spawn(running.shard)
            if running.stopping:
                await _end(process)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._copy_log(process, running.shard, tail))
                reason, at_fault = await self._follow(process, running)
                await _end(process)
        except OSError as error:
            reason = f"the shard process cannot be started: {error}"
        finally:
            if process is not None and process.returncode is None:
                process.kill()
            shard = running.shard
            self._running.pop(shard.key, None)
            at_fault = at_fault or (process is not None and process.returncode == EXIT_MODEL_FAULT)
            self._tell(ShardDied(shard.plan, shard.index, _explain(reason, process, tail), permanent=at_fault))

    async def _spawn(self, shard: ShardStart) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._program,
            *("--directory", str(shard.directory)),
            *("--layers", str(shard.layers)),
            *("--of", str(shard.layer_count)),
            *("--plan", shard.plan),
            *("--listen", join(shard.host, 0)),
            *("--kv-tokens", str(shard.kv_tokens_max)),
            *(("--kv-bits", str(shard.kv_bits)) if shard.kv_bits else ()),
            *(("--draft-model", str(shard.draft_model)) if shard.draft_model else ()),
            *(("--digest", shard.digest) if shard.digest else ()),
            *(("--credentials", str(self._credentials)) if self._credentials else ()),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            env=shard_environment(),
            start_new_session=True,  # a ^C at the terminal is for the node; it ends its shards in order
        )

    async def _follow(self, process: Process, running: _Running) -> tuple[str, bool]:
        """Read the shard's own words until it ends: why, as far as it said, and whether the model is at fault."""
        ready = False
        assert process.stdout is not None
        while True:
            try:
                async with asyncio.timeout(None if ready else READY_DEADLINE_S):
                    line = await _line(process.stdout)
            except TimeoutError:
                return f"no progress for {READY_DEADLINE_S:.0f} s while loading", False
            if not line:
                return "", False
            said = _said(line)
            shard = running.shard
            if "progress" in said:
                self._tell(ShardMadeProgress(shard.plan, shard.index, float(said["progress"])))
            elif "failed" in said:
                return str(said["failed"]), True
            elif "ready" in said:
                ready = True
                about = said["ready"]
                address, memory, pid = self._reached(about["address"]), int(about["memory_bytes"]), int(about["pid"])
                self._tell(ShardBecameReady(shard.plan, shard.index, address, memory, pid))

    def _reached(self, address: str) -> str:
        """Where others dial a shard that listens at `address`."""
        host, _, port = address.rpartition(":")
        return join(self._reached_at(), int(port)) if host.strip("[]") in ANY_HOST else address

    async def _copy_log(self, process: Process, shard: ShardStart, tail: deque[str]) -> None:
        assert process.stderr is not None
        while line := await _line(process.stderr):
            text = line.decode(errors="replace").rstrip()
            if text:
                tail.append(text)
                log.info("[%s %s] %s", self._name, shard.layers, text)


def shard_environment() -> dict[str, str]:
    """The environment of a shard: on Linux with OpenBLAS before MLX's own slow BLAS, where it is installed."""
    environment = dict(os.environ)
    environment.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if sys.platform == "linux":
        environment.setdefault("MLX_DISABLE_COMPILE", "1")  # MLX on CPU compiles with a C++ compiler, for seconds
        environment.setdefault("OPENBLAS_THREAD_TIMEOUT", OPENBLAS_SPIN_LOG2_CYCLES)
        if (library := ctypes.util.find_library("openblas")) is not None:
            preloaded = environment.get("LD_PRELOAD", "")
            if "openblas" not in preloaded:
                environment["LD_PRELOAD"] = f"{library}:{preloaded}".rstrip(":")
        else:
            log.warning("OpenBLAS is not installed: prompts run 10 to 20 times slower (Debian: libopenblas0-pthread)")
    return environment


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, empty at the end; an empty line in place of one that is too long."""
    try:
        return await stream.readline()
    except ValueError:
        return b"\n"


def _said(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _explain(reason: str, process: Process | None, tail: deque[str]) -> str:
    if reason:
        return reason
    if process is None:
        return "it was not started"
    code = process.returncode
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    said = f"; its last words: {' | '.join(tail)}" if tail and code not in (0, -signal.SIGKILL) else ""
    return f"its process ended ({how}){said}"


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
