"""A whole cluster in a World: secure, joined by invitation, found by discovery; and answers that are read meanwhile.

Everything is waited for with a deadline; times that are measured come from the nodes' own events, which carry the
wall clock that all namespaces share.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.netns.process import NodeProcess, socket_in
from tests.netns.world import World

READY_WITHIN_S = 60.0  # shards import MLX, several at once on two busy cores
TOGETHER_WITHIN_S = 15.0  # nodes that were just started find each other; a second on an idle machine
STREAM_DEADLINE_S = 90.0

MODEL = "tiny"
LAYERS = 6
Json = Any


def say(text: str) -> None:
    """What was measured; `pytest -s` shows it, and a failed test's report."""
    print(f"    measured: {text}", flush=True)


def wants(model: Path, layers: str) -> tuple[str, ...]:
    """Arguments of a node whose owner places the model by hand."""
    return ("--model", str(model), "--layers", layers, "--nodes", str(1 + layers.count(",")))


def halves(head: str, tail: str) -> str:
    return f"{head}=0-{LAYERS // 2 - 1},{tail}={LAYERS // 2}-{LAYERS - 1}"


class Cluster:
    """Nodes by the name of their host. Homes survive restarts, so identities do."""

    def __init__(self, world: World, model: Path | None = None) -> None:
        self.world = world
        self.model = model
        self.nodes: dict[str, NodeProcess] = {}

    # ------------------------------------------------------------ starting

    def found(self, host: str, *arguments: str) -> NodeProcess:
        """The first node, once it leads."""
        self.nodes[host] = node = self.world.run_node(host, *arguments)
        until(lambda: self.view(host)["master"] == self.id(host), TOGETHER_WITHIN_S, node.words)
        return node

    def invite(self, host: str, *options: str) -> str:
        """A token, as the founder's owner gets it."""
        done = self.world.command(host, "cluster", "invite", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    def join(self, hosts: Iterable[str], *, by: str, more: dict[str, tuple[str, ...]] | None = None) -> None:
        """Start nodes with nothing but an invitation (and `more`), all at once."""
        hosts = list(hosts)
        token = self.invite(by, "--uses", str(len(hosts)))
        self.start(hosts, {host: ("--join", token, *(more or {}).get(host, ())) for host in hosts})

    def start(self, hosts: Iterable[str], arguments: dict[str, tuple[str, ...]] | None = None) -> None:
        """Start them (again), all at once."""
        started = [self.world.launch_node(host, *(arguments or {}).get(host, ())) for host in hosts]
        for node in started:
            node.read_hello()
            self.nodes[node.name] = node

    def kill(self, host: str) -> float:
        """SIGKILL now; the moment."""
        node, at = self.nodes.pop(host), time.time()
        node.kill()
        return at

    # ------------------------------------------------------------ what they believe

    def id(self, host: str) -> str:
        return str(self.nodes[host].hello["node"])

    def view(self, host: str) -> Json:
        """`/v1/cluster` there."""
        return self.nodes[host].get("/v1/cluster")

    def seen(self, host: str) -> set[str]:
        """The names of the nodes that are here, as that node shows them."""
        return {node["name"] for node in self.view(host)["nodes"] if node["state"] != "lost"}

    def together(self, within_s: float = TOGETHER_WITHIN_S, hosts: Iterable[str] = ()) -> str:
        """Wait until all of them see each other, and nobody else, under one master; its host."""
        hosts = list(hosts or self.nodes)

        def agreed() -> bool:
            views = [self.view(host) for host in hosts]
            masters = {(view["master"], view["term"]) for view in views}
            return (
                len(masters) == 1
                and views[0]["master"] is not None
                and all(
                    {node["id"] for node in view["nodes"] if node["state"] != "lost"}
                    == {self.id(host) for host in hosts}
                    for view in views
                )
            )

        until(agreed, within_s, lambda: self.shown(hosts))
        return self.master(hosts[0])

    def master(self, host: str) -> str:
        """The host whose node this one obeys; empty while it obeys none, or one that is not ours."""
        master = self.view(host)["master"]
        return next((name for name in self.nodes if self.id(name) == master), "")

    def ready(self, host: str, within_s: float = READY_WITHIN_S) -> Json:
        """The ring of the model, once it serves."""

        def rings() -> list[Json]:
            return [ring for ring in self.view(host)["rings"] if ring["model"] == MODEL and ring["state"] == "ready"]

        until(lambda: bool(rings()), within_s, lambda: self.shown(self.nodes))
        return rings()[0]

    def pids(self, host: str) -> list[int]:
        return [stage["pid"] for stage in self.ready(host)["stages"]]

    def followed(self, hosts: Iterable[str], since: float, within_s: float) -> dict[str, float]:
        """Seconds from `since` until each of them had its next master (or was it), by its own events."""
        found: dict[str, float] = {}

        def all_found() -> bool:
            for host in set(hosts) - found.keys():
                view = self.view(host)
                kind = "master_elected" if view["master"] == self.id(host) else "master_followed"
                times = [e["at"] - since for e in view["events"] if e["kind"] == kind and e["at"] > since]
                if view["master"] is not None and times:
                    found[host] = min(times)
            return found.keys() == set(hosts)

        until(all_found, within_s, lambda: self.shown(hosts))
        return found

    def events(self, host: str, kind: str) -> list[Json]:
        return [event for event in self.view(host)["events"] if event["kind"] == kind]

    def shown(self, hosts: Iterable[str]) -> str:
        """For a failure: what each believes, and its log."""
        lines = []
        for host in hosts:
            view = self.view(host)
            nodes = [f"{node['name']} {node['state']}" for node in view["nodes"]]
            rings = [(r["state"], [(s["name"], s["state"], s["pid"]) for s in r["stages"]]) for r in view["rings"]]
            lines.append(f"{host}: master {self.master(host)!r} term {view['term']} nodes {nodes} rings {rings}")
        return "\n".join([*lines, *(f"--- {host}\n{self.nodes[host].words()}" for host in hosts)])

    # ------------------------------------------------------------ answers

    def stream(self, host: str, max_tokens: int = 800) -> Stream:
        """A long answer, which is the same whenever and wherever it is asked for."""
        return Stream(self.nodes[host], max_tokens)

    def served(self, host: str) -> float:
        """Ask for a few tokens; how long they took."""
        began = time.monotonic()
        self.stream(host, 8).whole()
        return time.monotonic() - began


class Stream:
    """One streamed answer, read by a thread. It is drawn at random from a seed, so that it never repeats itself."""

    def __init__(self, node: NodeProcess, max_tokens: int) -> None:
        self.node = node
        self.events: list[Json] = []  # decoded; the last of a good one is "[DONE]"
        self.at: list[float] = []  # when they came
        self.broken = ""
        self._body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Tell me a long story."}],
            "temperature": 1,
            "seed": 7,
            "max_tokens": max_tokens,
            "stream": True,
            "logit_bias": {"0": -100, "1": -100, "2": -100},  # it may not end by itself
        }
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        url = urllib.parse.urlsplit(self.node.api)
        assert url.hostname and url.port
        connection = http.client.HTTPConnection(url.hostname, url.port)
        try:
            connection.sock = socket_in(self.node.namespace, socket.AF_INET, socket.SOCK_STREAM)
            connection.sock.settimeout(STREAM_DEADLINE_S)
            connection.sock.connect((url.hostname, url.port))
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/chat/completions", json.dumps(self._body), headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self.broken = f"{answer.status}: {answer.read().decode()}"
                return
            for line in answer:
                if line.startswith(b"data: "):
                    data = line.removeprefix(b"data: ").strip()
                    self.events.append("[DONE]" if data == b"[DONE]" else json.loads(data))
                    self.at.append(time.monotonic())
        except (OSError, http.client.HTTPException) as error:
            self.broken = repr(error)
        finally:
            connection.close()

    @property
    def text(self) -> str:
        """What came so far."""
        return "".join(choice["delta"].get("content") or "" for choice in self._choices())

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def pause_s(self) -> float:
        """The longest time in which nothing came."""
        return max((b - a for a, b in zip(self.at, self.at[1:], strict=False)), default=0.0)

    def _choices(self) -> list[Json]:
        return [choice for event in list(self.events) if event != "[DONE]" for choice in event.get("choices", ())]

    def began(self, characters: int = 40, within_s: float = READY_WITHIN_S) -> Stream:
        """Once some of it has come."""
        until(lambda: len(self.text) >= characters or self.ended, within_s, lambda: f"only {self.text!r} came")
        assert not self.ended, f"it was to go on: {self.broken or self.events[-1:]}"
        return self

    def whole(self, within_s: float = STREAM_DEADLINE_S) -> str:
        """Its text, once it has ended; that it ended well and exactly once."""
        self._thread.join(within_s)
        assert self.ended, f"it has not ended after {within_s:g} s; {len(self.text)} characters came"
        assert not self.broken, f"{self.broken}\n{self.node.words()}"
        ends = [choice["finish_reason"] for choice in self._choices() if choice["finish_reason"]]
        assert ends == ["length"], f"{ends}, {self.events[-2:]}\n{self.node.words()}"
        assert [event for event in self.events if event == "[DONE]"] == self.events[-1:]
        return self.text


def until(condition: Callable[[], bool], within_s: float, why: Callable[[], str]) -> None:
    """Poll until `condition` holds; fails the test with `why` when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"after {within_s:g} s: {why()}"
        time.sleep(0.05)
