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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied, ShardMadeProgress
from ringleader.values import LayerRange, PlanHash

READY_DEADLINE_S = 120.0  # without a word: reading one layer from a slow disk takes seconds, not minutes
STOP_DEADLINE_S = 5.0  # between SIGTERM and SIGKILL
LAST_LINES = 5  # of a dead shard's log that go into the reason

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

    def __init__(self, node_name: str, tell: Callable[[Event], None]) -> None:
        self._name = node_name
        self._tell = tell
        self._watchers: dict[tuple[PlanHash, int], asyncio.Task[None]] = {}
        self._processes: dict[tuple[PlanHash, int], Process] = {}

    def start(self, shard: ShardStart) -> None:
        """Start a shard; what becomes of it is told. An order for one that runs already changes nothing."""
        key = (shard.plan, shard.index)
        if key not in self._watchers:
            task = asyncio.create_task(self._watch(shard), name=f"shard {shard.layers}")
            self._watchers[key] = task

    async def stop(self, plan: PlanHash, index: int) -> None:
        """End a shard and wait until it is gone. Its end is told as any other."""
        key = (plan, index)
        if (process := self._processes.get(key)) is not None:
            await _end(process)
        if (task := self._watchers.get(key)) is not None:
            await asyncio.wait({task})

    async def stop_all(self) -> None:
        """End every shard at once."""
        await asyncio.gather(*(self.stop(plan, index) for plan, index in list(self._watchers)))

    async def _watch(self, shard: ShardStart) -> None:
        key = (shard.plan, shard.index)
        tail: deque[str] = deque(maxlen=LAST_LINES)
        reason = ""
        try:
            process = self._processes[key] = await self._spawn(shard)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._copy_log(process, shard, tail))
                reason = await self._follow(process, shard)
                await _end(process)
        except OSError as error:
            reason = f"the shard process cannot be started: {error}"
        finally:
            process_gone = self._processes.pop(key, None)
            if process_gone is not None and process_gone.returncode is None:
                process_gone.kill()
            del self._watchers[key]
            self._tell(ShardDied(shard.plan, shard.index, _explain(reason, process_gone, tail)))

    async def _spawn(self, shard: ShardStart) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ringleader",
            "shard",
            *("--directory", str(shard.directory)),
            *("--layers", str(shard.layers)),
            *("--of", str(shard.layer_count)),
            *("--plan", shard.plan),
            *("--listen", f"{shard.host}:0"),
            *("--kv-tokens", str(shard.kv_tokens_max)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=shard_environment(),
            start_new_session=True,  # a ^C at the terminal is for the node; it ends its shards in order
        )

    async def _follow(self, process: Process, shard: ShardStart) -> str:
        """Read the shard's own words until it ends; why it ended, as far as it said."""
        ready = False
        assert process.stdout is not None
        while True:
            try:
                async with asyncio.timeout(None if ready else READY_DEADLINE_S):
                    line = await process.stdout.readline()
            except TimeoutError:
                return f"no progress for {READY_DEADLINE_S:.0f} s while loading"
            if not line:
                return ""
            said = _said(line)
            if "progress" in said:
                self._tell(ShardMadeProgress(shard.plan, shard.index, float(said["progress"])))
            elif "failed" in said:
                return str(said["failed"])
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
        async for line in process.stderr:
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
        if (library := ctypes.util.find_library("openblas")) is not None:
            preloaded = environment.get("LD_PRELOAD", "")
            if "openblas" not in preloaded:
                environment["LD_PRELOAD"] = f"{library}:{preloaded}".rstrip(":")
        else:
            log.warning("OpenBLAS is not installed: prompts run 10 to 20 times slower (Debian: libopenblas0-pthread)")
    return environment


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
