"""Real nodes as processes, for tests: on free loopback ports, leashed to the test run, watched and ended by pid."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import psutil

HELLO_DEADLINE_S = 90.0  # a node says where it listens; imports on a busy machine take long
READY_DEADLINE_S = 60.0  # several shards load at once on two cores
END_DEADLINE_S = 8.0
ELECTED_WITHIN_S = 10.0

Json = Any


class Node:
    """One `ringleader node` process. It ends when its standard input closes, so it never outlives the tests."""

    def __init__(self, name: str, arguments: Iterable[str], log: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        command = [sys.executable, "-m", "ringleader", "node", "--name", name, "--json", "--leash", *arguments]
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **environment}
            )
        hello = self._hello()
        self.api: str = hello["api"]
        self.control: str = hello["control"]
        self.id: str = hello["node"]

    def _hello(self) -> Json:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], HELLO_DEADLINE_S)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.close()
            raise AssertionError(f"node {self.name} did not start:\n{self.words()}")
        return json.loads(line)

    def words(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def shards(self) -> list[psutil.Process]:
        """The processes below it that are alive now."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process for process in found if alive(process)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self, within_s: float) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout=within_s)

    def close(self) -> None:
        """End it in order, or else by force; then whatever it left behind, each by its pid."""
        left = self.shards()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(timeout=END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for process in left:
            if alive(process):
                process.kill()


class Cluster:
    """Nodes of one cluster on loopback, in the clear; `master` is the first. Leaving the block ends every process."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self._directory = directory
        self._environment = {"RINGLEADER_HOME": str(directory / "home"), **environment}
        self.nodes: dict[str, Node] = {}
        self.master = ""

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.close()

    def start_master(self, name: str, *arguments: str, port: int = 0) -> Node:
        """The first node, which leads before any other comes and stays master."""
        self.master = name
        node = self.start(name, "--port", str(port), *arguments)
        wait_until(lambda: self.view()["master"] == node.id, ELECTED_WITHIN_S, lambda: str(self.view()))
        return node

    def start_follower(self, name: str, *arguments: str) -> Node:
        """One more node; it knows where the master is."""
        return self.start(name, "--port", "0", "--peer", self.nodes[self.master].control, *arguments)

    def start(self, name: str, *arguments: str) -> Node:
        """Start a node, or start it again: it keeps its id and its state."""
        before = self.nodes.pop(name, None)
        if before is not None:
            before.close()
        own = ("--insecure", "--no-mdns", "--api-port", "0", "--state", str(self._directory / f"{name}.state"))
        own += ("--loading-wait", str(READY_DEADLINE_S))  # tests ask at once, and mean to be answered
        node = Node(name, (*own, *arguments), self._directory / f"{name}.log", self._environment)
        self.nodes[name] = node
        return node

    @property
    def api(self) -> str:
        return self.nodes[self.master].api

    def view(self, name: str = "") -> Json:
        """`/v1/cluster` of the master, or as another node shows it."""
        api = self.nodes[name].api if name else self.api
        with urllib.request.urlopen(f"{api}/v1/cluster", timeout=5) as answer:
            return json.load(answer)

    def stages(self) -> list[Json]:
        """Of the first ring, head first; empty without one."""
        rings = self.view()["rings"]
        return list(rings[0]["stages"]) if rings else []

    def wait_ready(self, within_s: float = READY_DEADLINE_S) -> list[Json]:
        """Until the first ring serves; its stages."""

        def ready() -> bool:
            rings = self.view()["rings"]
            return bool(rings) and rings[0]["state"] == "ready"

        wait_until(ready, within_s, lambda: f"the ring is not ready: {self.view()}")
        return self.stages()

    def strays(self) -> set[int]:
        """Processes below our nodes that are no shard of the ring."""
        here = {shard.pid for node in self.nodes.values() for shard in node.shards()}
        return here - {stage["pid"] for stage in self.stages()}


def alive(process: psutil.Process) -> bool:
    """Whether it runs (a zombie does not; another process with its old pid is another process)."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], within_s: float, why: Callable[[], str]) -> None:
    """Poll until `condition` holds; fails the test with `why` when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"after {within_s:g} s: {why()}"
        time.sleep(0.05)


def wait_gone(processes: Iterable[psutil.Process], within_s: float) -> None:
    """Until every process has ended."""
    watched = list(processes)
    wait_until(
        lambda: not any(alive(process) for process in watched),
        within_s,
        lambda: f"still alive: {[process.pid for process in watched if alive(process)]}",
    )


# ---------------------------------------------------------------- talking to a node


def chat(**fields: Json) -> Json:
    """A body that runs for a long time unless `fields` say otherwise: the model may not end by itself."""
    never_end = {"0": -100, "2": -100}  # SmolLM2's end tokens
    messages = [{"role": "user", "content": "Tell me a long story."}]
    body = {"model": "smollm2-135m", "messages": messages, "temperature": 0, "max_tokens": 600, "logit_bias": never_end}
    return body | fields


async def ask(session: aiohttp.ClientSession, api: str, **fields: Json) -> tuple[int, Json]:
    """Status and body of a request that is not streamed."""
    async with session.post(f"{api}/v1/chat/completions", json=chat(**fields)) as answer:
        return answer.status, await answer.json()


async def events(session: aiohttp.ClientSession, api: str, **fields: Json) -> AsyncIterator[Json]:
    """The `data:` events of a streamed request, decoded; the last of a good one is "[DONE]"."""
    async with session.post(f"{api}/v1/chat/completions", json=chat(stream=True, **fields)) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            if line.startswith(b"data: "):
                data = line.removeprefix(b"data: ").strip()
                yield "[DONE]" if data == b"[DONE]" else json.loads(data)
