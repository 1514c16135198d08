"""Hosts as network namespaces on a bridge: made, cut, healed and deleted by `ip` and `tc`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.netns.process import BESIDE, NodeProcess, Process

PREFIX = "rl"
HUB = "hub"
START_DEADLINE_S = 30.0


class CommandFailed(AssertionError):
    """A command of the harness ended badly; says which, and its words."""


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def why_not() -> str:
    """Why no World can be made here; empty where one can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need iproute2 (ip, tc)"
    name = f"{PREFIX}{os.getpid()}-try"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", name, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1")
        finally:
            run("ip", "netns", "del", name)
    except CommandFailed as error:
        return f"this kernel does not give us network namespaces: {error}"
    return ""


class Host:
    """One host. `interfaces` are its names of them, in the order in which they were plugged in."""

    def __init__(self, name: str, number: int, namespace: str) -> None:
        self.name = name
        self.number = number
        self.namespace = namespace
        self.interfaces: list[str] = []
        self.deaf_to: set[str] = set()

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.namespace, *words)

    def macs(self) -> list[str]:
        return [re.findall(r"link/ether (\S+)", self.ip("link", "show", "dev", each))[0] for each in self.interfaces]

    def apply_deafness(self, macs: Iterable[str]) -> None:
        """Drop every frame that comes from these addresses, and no other."""
        for interface in self.interfaces:
            device = ("dev", interface)
            with contextlib.suppress(CommandFailed):
                run("tc", "-n", self.namespace, "qdisc", "del", *device, "ingress")
            if not macs:
                continue
            run("tc", "-n", self.namespace, "qdisc", "add", *device, "ingress")
            for number, mac in enumerate(macs, 1):
                code = _drop_from(mac)
                where = ("parent", "ffff:", "protocol", "all", "prio", str(number))
                run("tc", "-n", self.namespace, "filter", "add", *device, *where, "bpf", "da", "bytecode", code)


class World:
    """Hosts named by single letters, or by a list of names."""

    def __init__(self, hosts: Iterable[str], directory: Path, ipv4: bool = True) -> None:
        self._id = f"{PREFIX}{os.getpid()}"
        self._directory = directory
        self._ipv4 = ipv4
        self._networks = 0
        self._hub = f"{self._id}-{HUB}"
        self.hosts = {name: Host(name, n, f"{self._id}-{name}") for n, name in enumerate(hosts, 1)}
        self.processes: list[Process] = []

    # ------------------------------------------------------------ coming and going

    def __enter__(self) -> World:
        _remove_stale()
        try:
            for namespace in (self._hub, *(host.namespace for host in self.hosts.values())):
                run("ip", "netns", "add", namespace)
            for host in self.hosts.values():
                host.ip("link", "set", "lo", "up")
            self.add_network(*self.hosts)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process by its pid, then delete every namespace."""
        for process in self.processes:
            process.close()
        for namespace in (self._hub, *(host.namespace for host in self.hosts.values())):
            with contextlib.suppress(CommandFailed):
                run("ip", "netns", "del", namespace)

    def host(self, name: str) -> Host:
        return self.hosts[name]

    # ------------------------------------------------------------ cables

    def add_network(self, *names: str) -> str:
        """A new bridge with a new interface on each of these hosts; returns the interface's name there."""
        number = self._networks
        self._networks += 1
        bridge, interface = f"br{number}", f"eth{number}"
        hub = ("ip", "-n", self._hub)
        # Snooping would forward multicast only to those who were asked; there is no router here that asks.
        run(*hub, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
        run(*hub, "link", "set", bridge, "up")
        for name in names:
            host = self.hosts[name]
            port = _port(name, number)
            mac = f"02:77:00:00:{number:02x}:{host.number:02x}"
            run(
                *hub, "link", "add", "name", port, "type", "veth",
                "peer", "name", interface, "address", mac, "netns", host.namespace,
            )  # fmt: skip
            run(*hub, "link", "set", port, "master", bridge, "up")
            if self._ipv4:
                host.ip("addr", "add", f"10.77.{number}.{host.number}/24", "dev", interface)
                host.ip("addr", "add", f"fd77:{number}::{host.number}/64", "dev", interface, "nodad")
            host.ip("link", "set", interface, "up")
            host.interfaces.append(interface)
        self._apply()
        return interface

    def unplug(self, name: str, network: int = 0) -> None:
        """Pull the cable."""
        run("ip", "-n", self._hub, "link", "set", _port(name, network), "down")

    def plug(self, name: str, network: int = 0) -> None:
        run("ip", "-n", self._hub, "link", "set", _port(name, network), "up")

    def cut(self, a: str, b: str, both: bool = True) -> None:
        """What a sends does not reach b, and (`both`) the other way round; on all networks, without a word."""
        self.hosts[b].deaf_to.add(a)
        if both:
            self.hosts[a].deaf_to.add(b)
        self._apply()

    def split(self, *groups: Iterable[str]) -> None:
        """Hosts of different groups do not hear each other any more."""
        sides = [list(group) for group in groups]
        for side in sides:
            for other in sides:
                if other is not side:
                    for name in side:
                        self.hosts[name].deaf_to |= set(other)
        self._apply()

    def heal(self) -> None:
        """Undo every cut, and plug every cable in."""
        for host in self.hosts.values():
            host.deaf_to.clear()
            for interface in host.interfaces:
                self.plug(host.name, int(interface.removeprefix("eth")))
        self._apply()

    def _apply(self) -> None:
        for host in self.hosts.values():
            host.apply_deafness([mac for name in sorted(host.deaf_to) for mac in self.hosts[name].macs()])

    def settle(self) -> None:
        """Wait until every IPv6 address can be used: the kernel looks for a duplicate first, for about a second."""
        end = time.monotonic() + START_DEADLINE_S
        while any("tentative" in host.ip("-6", "addr") for host in self.hosts.values()):
            assert time.monotonic() < end, "the addresses are still tentative"
            time.sleep(0.05)

    # ------------------------------------------------------------ processes

    def start(self, host: str, *command: str, name: str = "", **environment: str) -> Process:
        """A command inside a host. Its standard output is read by lines, its standard error goes to a file."""
        process = Process(self.hosts[host].namespace, command, self._log(name or host), environment)
        self.processes.append(process)
        return process

    def run_node(self, host: str, *arguments: str, name: str = "", **environment: str) -> NodeProcess:
        """A node inside a host, once it has said that it is ready. Each host has a home of its own.

        The API is on the host's own loopback, at a free port.
        """
        node = self.launch_node(host, *arguments, name=name, **environment)
        node.read_hello()
        return node

    def launch_node(self, host: str, *arguments: str, name: str = "", **environment: str) -> NodeProcess:
        """The same without waiting: several start at once, `read_hello()` waits for each."""
        name = name or host
        environment = {"RINGLEADER_HOME": str(self.home(name)), **environment}
        log, namespace = self._log(name), self.hosts[host].namespace
        node = NodeProcess(namespace, name, arguments, log, environment, START_DEADLINE_S)
        self.processes.append(node)
        return node

    def command(self, host: str, *words: str, name: str = "") -> subprocess.CompletedProcess[str]:
        """`ringleader ...` inside a host, with that host's home, to its end."""
        return subprocess.run(
            ["ip", "netns", "exec", self.hosts[host].namespace, sys.executable, "-m", "ringleader", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_DEADLINE_S,
            env={**os.environ, "PYTHONPATH": BESIDE, "RINGLEADER_HOME": str(self.home(name or host))},
        )

    def home(self, name: str) -> Path:
        """Where the node of that name keeps its membership and models."""
        return self._directory / f"home-{name}"

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def _port(host: str, network: int) -> str:
    return f"p{network}-{host}"[:15]


def _drop_from(mac: str) -> str:
    """Classic BPF, as tc takes it: 2 (drop) for a frame whose source is `mac`, -1 (the next filter) for others."""
    digits = mac.replace(":", "")
    return f"6,32 0 0 6,21 0 3 {int(digits[:8], 16)},40 0 0 10,21 0 1 {int(digits[8:], 16)},6 0 0 2,6 0 0 4294967295"


def _remove_stale() -> None:
    """Namespaces of test runs that were killed."""
    for line in run("ip", "netns", "list").splitlines():
        found = re.match(rf"({PREFIX}(\d+)-\S+)", line)
        if found and not Path(f"/proc/{found[2]}").exists():
            with contextlib.suppress(CommandFailed):
                run("ip", "netns", "del", found[1])
