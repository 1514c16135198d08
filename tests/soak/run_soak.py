"""Minutes of mixed load on a real node and its ring of two shards: `python -m tests.soak.run_soak` (SOAK_S seconds).

At the end slots, memory, tasks, threads and files are back where they began, or it fails and says what is not.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc
import psutil

from ringleader.models.store import Store
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.wire import PROTOCOL_VERSION
from tests.ring.cluster import Cluster
from tests.soak.load import Load

SOAK_S = 600.0
LINE_S = 30.0
WARM_SHARE = 0.2  # of the time: caches fill, allocators take what they keep
CALLERS = 6
SETTLE_S = 30.0  # within which all that was left is let go
MEMORY_SHARE, MEMORY_MB = 0.15, 96.0  # growth after warming up that is no leak: allocators and caches breathe
FEW = 4  # tasks, threads or files more or less: a probe or a beat under way


@dataclass(frozen=True, slots=True)
class Reading:
    """What is held at one moment."""

    slots: tuple[int, ...]
    tasks: int
    threads: int
    files: int
    node_mb: float
    shards_mb: tuple[float, ...]

    def __str__(self) -> str:
        shards = " + ".join(f"{size:.0f}" for size in self.shards_mb)
        held = f"slots {self.slots}, tasks {self.tasks}, threads {self.threads}, files {self.files}"
        return f"{held}, node {self.node_mb:.0f} MB, shards {shards} MB"


class Soaked:
    """A node under load."""

    def __init__(self, cluster: Cluster) -> None:
        self._node = next(iter(cluster.nodes.values()))
        self._process = psutil.Process(self._node.process.pid)
        self._shards = [psutil.Process(stage["pid"]) for stage in cluster.stages()]

    async def read(self, session: aiohttp.ClientSession) -> Reading:
        """What is held now. Fails when a process has gone."""
        async with session.get(f"{self._node.api}/metrics") as answer:
            metrics = await answer.text()
        tasks = re.search(r"^ringleader_tasks (\S+)", metrics, re.MULTILINE)
        assert tasks is not None, "the node does not tell how many tasks it has"
        hellos = await asyncio.gather(*(self._hello(shard) for shard in self._shards))
        return Reading(
            slots=tuple(hello.slots for hello in hellos),
            tasks=int(float(tasks[1])),
            threads=self._process.num_threads() + sum(shard.num_threads() for shard in self._shards),
            files=self._process.num_fds() + sum(shard.num_fds() for shard in self._shards),
            node_mb=self._process.memory_info().rss / 2**20,
            shards_mb=tuple(shard.memory_info().rss / 2**20 for shard in self._shards),
        )

    async def _hello(self, shard: psutil.Process) -> pb.HelloReply:
        listens = [each.laddr for each in shard.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{listens[0].port}") as channel:
            reply: pb.HelloReply = await rpc.RingStub(channel).Hello(
                pb.HelloRequest(version=PROTOCOL_VERSION), timeout=30, wait_for_ready=True
            )
            return reply


async def soak(cluster: Cluster, model: str, seconds: float, say: Callable[[str], None], long_words: int) -> list[str]:
    """Load the node for so long; what is wrong, if anything."""
    soaked = Soaked(cluster)
    load = Load(cluster.api, model, seed=int(os.environ.get("SOAK_SEED", "1")), long_words=long_words)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        say(f"at rest: {await soaked.read(session)}")
        await _phase(load, session, soaked, seconds * WARM_SHARE, say)
        before = await _rested(soaked, session, None)
        say(f"warm: {before}")
        await _phase(load, session, soaked, seconds * (1 - WARM_SHARE), say)
        after = await _rested(soaked, session, before)
        say(f"at the end: {after}; {dict(load.counts)}")
    faults = [*load.wrong[:10], *left_behind(before, after)]
    if not load.counts["left"] or not load.counts["text"]:
        faults.append(f"too little came about to tell anything: {dict(load.counts)}")
    return faults


async def _phase(
    load: Load, session: aiohttp.ClientSession, soaked: Soaked, seconds: float, say: Callable[[str], None]
) -> None:
    stop = asyncio.Event()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            group.create_task(load.call(session, number, stop))
        while (left := begun + seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(LINE_S, left))
            wrong = f", {len(load.wrong)} WRONG" if load.wrong else ""
            held = await soaked.read(session)
            say(f"{time.monotonic() - begun:4.0f} s: {sum(load.counts.values())} requests{wrong}; {held}")
        stop.set()


async def _rested(soaked: Soaked, session: aiohttp.ClientSession, before: Reading | None) -> Reading:
    """What is held once nobody asks any more: when it is as before, or at last."""
    end = time.monotonic() + SETTLE_S
    while True:
        found = await soaked.read(session)
        calm = not any(found.slots) and (before is None or not left_behind(before, found))
        if time.monotonic() > end or calm:
            return found
        await asyncio.sleep(0.5)


def left_behind(before: Reading, after: Reading) -> list[str]:
    """What is held that was not."""
    faults = [f"slots that nobody uses: {after.slots}"] if any(after.slots) else []
    for name in ("tasks", "threads", "files"):
        was, now = getattr(before, name), getattr(after, name)
        if now > was + FEW:
            faults.append(f"{name}: {was} before, {now} after")
    sizes = [("node", before.node_mb, after.node_mb)]
    sizes += [
        (f"shard {n}", was, now) for n, (was, now) in enumerate(zip(before.shards_mb, after.shards_mb, strict=True))
    ]
    faults += [
        f"memory of {name}: {was:.0f} MB before, {now:.0f} MB after"
        for name, was, now in sizes
        if now > was * (1 + MEMORY_SHARE) + MEMORY_MB
    ]
    return faults


def main() -> int:
    """The embedded model on one node, cut in two."""
    model = sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"
    seconds = float(os.environ.get("SOAK_S", SOAK_S))
    directory = Store().resolve(model)
    print(f"soak: {model}, two shards, {CALLERS} callers, {seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="ringleader-soak-") as folder, Cluster(Path(folder)) as cluster:
        cluster.start_master("a", "--model", str(directory), "--shards", "2", "--context", "2048")
        cluster.wait_ready()
        faults = asyncio.run(soak(cluster, model, seconds, lambda line: print(f"  {line}", flush=True), 300))
        for fault in faults:
            print(f"  FAILED: {fault}", flush=True)
        if faults:
            print("\n".join(cluster.nodes["a"].words().splitlines()[-40:]), file=sys.stderr)
    print("soak: " + ("FAILED" if faults else "all is as it was"), flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
