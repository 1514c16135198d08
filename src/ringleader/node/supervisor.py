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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied, ShardMadeProgress
from ringleader.shard.process import EXIT_MODEL_FAULT
from ringleader.values import LayerRange, PlanHash

READY_DEADLINE_S = 120.0  # without a word: reading one layer from a slow disk takes seconds, not minutes
STOP_DEADLINE_S = 3.0  # between SIGTERM, at which a shard that is well ends at once, and SIGKILL
LAST_LINES = 5  # of a dead shard's log that go into the reason
SHARD_PROGRAM = (sys.executable, "-m", "ringleader", "shard")
LINE_BYTES_MAX = 1 << 20  # of a shard's output; a longer line is dropped
# OpenBLAS's threads spin for 2^26 cycles after a product: while one shard of a machine computes, its neighbour's
# idle threads take its cores. 2^16 (25 us) bridges the gaps inside a pass and not those between passes.
OPENBLAS_SPIN_LOG2_CYCLES = "16"

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class ShardStart:
    """One shard to start. `host` is where it listens; `kv_tokens_max` the plan's KV budget in tokens."""

    plan: PlanHash
    index: int
    directory: Path
    layers: LayerRange
    layer_count: int
    host: str
    kv_tokens_max: int


class Supervisor:
    """The shard processes of one node. `tell` gets ShardMadeProgress, ShardBecameReady and ShardDied."""

    def __init__(self, node_name: str, tell: Callable[[Event], None], program: Sequence[str] = SHARD_PROGRAM) -> None:
        self._name = node_name
        self._tell = tell
        self._program = program
        self._watchers: dict[tuple[PlanHash, int], asyncio.Task[None]] = {}
        self._processes: dict[tuple[PlanHash, int], Process] = {}
        self._stopping: set[tuple[PlanHash, int]] = set()

    def start(self, shard: ShardStart) -> None:
        """Start a shard; what becomes of it is told. An order for one that runs already changes nothing."""
        key = (shard.plan, shard.index)
        if key not in self._watchers:
            task = asyncio.create_task(self._watch(shard), name=f"shard {shard.layers}")
            self._watchers[key] = task

    async def stop(self, plan: PlanHash, index: int) -> None:
        """End a shard and wait until it is gone. Its end is told as any other."""
        key = (plan, index)
        if (task := self._watchers.get(key)) is None:
            return
        self._stopping.add(key)  # it may not have a process yet
        if (process := self._processes.get(key)) is not None:
            await _end(process)
        await asyncio.wait({task})

    async def stop_all(self) -> None:
        """End every shard at once."""
        await asyncio.gather(*(self.stop(plan, index) for plan, index in list(self._watchers)))

    async def _watch(self, shard: ShardStart) -> None:
        key = (shard.plan, shard.index)
        tail: deque[str] = deque(maxlen=LAST_LINES)
        reason, at_fault = "", False
        try:
            process = self._processes[key] = await self._spawn(shard)
            if key in self._stopping:
                await _end(process)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._copy_log(process, shard, tail))
                reason, at_fault = await self._follow(process, shard)
                await _end(process)
        except OSError as error:
            reason = f"the shard process cannot be started: {error}"
        finally:
            process_gone = self._processes.pop(key, None)
            if process_gone is not None and process_gone.returncode is None:
                process_gone.kill()
            del self._watchers[key]
            self._stopping.discard(key)
            at_fault = at_fault or (process_gone is not None and process_gone.returncode == EXIT_MODEL_FAULT)
            why = _explain(reason, process_gone, tail)
            self._tell(ShardDied(shard.plan, shard.index, why, permanent=at_fault))

    async def _spawn(self, shard: ShardStart) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._program,
            *("--directory", str(shard.directory)),
            *("--layers", str(shard.layers)),
            *("--of", str(shard.layer_count)),
            *("--plan", shard.plan),
            *("--listen", f"{shard.host}:0"),
            *("--kv-tokens", str(shard.kv_tokens_max)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            env=shard_environment(),
            start_new_session=True,  # a ^C at the terminal is for the node; it ends its shards in order
        )

    async def _follow(self, process: Process, shard: ShardStart) -> tuple[str, bool]:
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
            if "progress" in said:
                self._tell(ShardMadeProgress(shard.plan, shard.index, float(said["progress"])))
            elif "failed" in said:
                return str(said["failed"]), True
            elif "ready" in said:
                ready = True
                about = said["ready"]
                self._tell(
                    ShardBecameReady(
                        shard.plan,
                        shard.index,
                        about["address"],
                        int(about["memory_bytes"]),
                        int(about["pid"]),
                    )
                )

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
