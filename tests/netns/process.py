"""Processes inside a namespace, and HTTP to them: sockets are made in there and used from here."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import psutil

CLONE_NEWNET = 0x40000000
END_DEADLINE_S = 8.0
HTTP_DEADLINE_S = 20.0
# What is tested is what lies beside these tests, wherever the package may be installed from.
BESIDE = os.pathsep.join(str(Path(__file__).parents[2] / each) for each in ("src", ""))

Json = Any


def socket_in(namespace: str, family: int, kind: int, proto: int = 0) -> socket.socket:
    """A socket of that namespace; it stays there whoever uses it."""
    made: list[socket.socket | OSError] = []

    def make() -> None:  # in a thread of its own, which ends: a thread that changed its namespace is never reused
        try:
            with Path(f"/run/netns/{namespace}").open("rb") as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
                made.append(socket.socket(family, kind, proto))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


class Process:
    """One command inside a namespace. Its standard input is a leash: nodes end when the tests do."""

    def __init__(self, namespace: str, command: Iterable[str], log: Path, environment: dict[str, str]) -> None:
        self.namespace = namespace
        self.log = log
        self._buffer = b""
        self._left: list[psutil.Process] = []
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, *command],  # it execs: the pid is the command's own
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": BESIDE, **environment},
            )

    def words(self) -> str:
        """Its standard error so far."""
        return self.log.read_text(errors="replace")

    def line(self, within_s: float) -> str | None:
        """The next line of its standard output; None when none came in time, or it ended."""
        assert self.process.stdout is not None
        end = time.monotonic() + within_s
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if readable else b""
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def children(self) -> list[psutil.Process]:
        """The processes below it (a node's shards)."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM; its exit code. Killed if it does not end."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL, now. Nothing happens where it has ended already."""
        self._left += self.children()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Kill it and, if they do not end by themselves, the shards that it leaves, each by its pid."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        _, alive = psutil.wait_procs(self._left, timeout=END_DEADLINE_S / 2)
        for child in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


class Client:
    """HTTP to a server inside a namespace, on its loopback too. `api` is its URL as seen in there."""

    namespace: str
    api: str

    def get(self, path: str, within_s: float = HTTP_DEADLINE_S) -> Json:
        return self.request("GET", path, None, within_s)[1]

    def post(self, path: str, body: Json, within_s: float = HTTP_DEADLINE_S) -> Json:
        return self.request("POST", path, body, within_s)[1]

    def request(self, method: str, path: str, body: Json, within_s: float = HTTP_DEADLINE_S) -> tuple[int, Json]:
        """Status and decoded JSON. Raises OSError when the node does not answer in time."""
        url = urllib.parse.urlsplit(self.api)
        assert url.hostname and url.port
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=within_s)
        connection.sock = socket_in(self.namespace, socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.sock.settimeout(within_s)
            connection.sock.connect((url.hostname, url.port))
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def session(self) -> aiohttp.ClientSession:
        """An HTTP client inside its host, for streams."""

        def make(info: Any) -> socket.socket:
            family, kind, proto, _, _ = info
            made = socket_in(self.namespace, family, kind, proto)
            made.setblocking(False)
            return made

        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=make))


class NodeProcess(Process, Client):
    """A `ringleader node`. `hello` is its JSON line."""

    def __init__(
        self,
        namespace: str,
        name: str,
        arguments: Iterable[str],
        log: Path,
        environment: dict[str, str],
        within_s: float,
    ) -> None:
        words = ("-m", "ringleader", "node", "--name", name, "--json", "--leash", "--api-port", "0")
        words += ("--loading-wait", "60")  # tests ask at once, and mean to be answered
        super().__init__(namespace, (sys.executable, *words, *arguments), log, environment)
        self.name = name
        self._within_s = within_s
        self.hello: Json = {}
        self.api = ""

    def read_hello(self) -> None:
        """Wait for the JSON line; fails the test with the node's words when it does not come."""
        line = self.line(self._within_s)
        if line is None:
            self.close()
            raise AssertionError(f"node {self.name} did not start:\n{self.words()}")
        self.hello = json.loads(line)
        self.api = str(self.hello["api"])
