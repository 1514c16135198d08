"""What a node is told at its start, checked once. Leaf module: imports no room."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ringleader.errors import BadRequest
from ringleader.values import Coding

API_PORT = 52415
CONTROL_PORT = 52416
JOIN_PORT = 52417
CONTEXT_DEFAULT = 8192  # tokens of prompt and answer; a plan reserves KV for STREAMS_PLANNED such requests
STREAMS_PLANNED = 2
LOADING_WAIT_S = 2.0  # a ring that was linked anew serves after about a second
# Requests accepted and not ended, waiting or running. A ring of Macs answers some hundred short requests a minute, so
# that the last in a longer queue would meet its client's own timeout.
QUEUE_MAX = 256
QUEUE_LIMIT = 1024  # what a head holds; more in the queue of a ring would wait for an hour
RESPONSES_KEPT = 20_000  # a month of an agent's sessions
IDLE_UNLOAD_S = 1800.0  # of nobody asking for a model: its owner wants the memory back
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of `ringleader node`.

    `host` is where other nodes reach this one: an address of one interface, or "" for all. `peers` are host:port
    of other nodes' control ports, where discovery (`mdns`) does not find them. `join` is an invitation. `models` are
    served from the start, by store name, hf:org/name or path; `layers`, `shards`, `objective` and `exclude` say how.
    Activations travel as `wire` says. A model that nobody asked for in `idle_unload_s` is unloaded (0: never).
    `queue_max` requests wait or run at most; one whose model is not loaded within `loading_wait_s` is told to come
    again. `home` None means the user's data directory, `state` None the one below it. `named_finish` is the
    finish_reason of a call that was forced by name: what agents act on, or what OpenAI itself sends. `api_tls` makes
    the API https with a certificate of the cluster's authority, `api_cert` with that of a PEM file (and its key);
    pages of the origins `cors` may use it. `keep_responses` answers are kept for those that follow them (0: none).
    `aliases` are pairs of a pattern and a model: what clients may call a model besides. Without `speculation` no tokens
    are guessed ahead; `draft_model`, a small one, guesses more beside a ring's head. `trace` is the file into which the
    passes of this node's shards are written.
    """

    name: str
    host: str = ""
    control_port: int = CONTROL_PORT
    api_host: str = "127.0.0.1"
    api_port: int = API_PORT
    api_key: str | None = None
    api_tls: bool = False
    api_cert: Path | None = None
    cors: tuple[str, ...] = ()
    keep_responses: int = RESPONSES_KEPT
    join_port: int = JOIN_PORT
    peers: tuple[str, ...] = ()
    join: str | None = None
    mdns: bool = True
    insecure: bool = False
    models: tuple[str, ...] = ()
    shards: int | None = None
    layers: tuple[tuple[str, int, int], ...] = ()
    objective: Literal["latency", "throughput"] = "latency"
    exclude: tuple[str, ...] = ()
    idle_unload_s: float = IDLE_UNLOAD_S
    queue_max: int = QUEUE_MAX
    loading_wait_s: float = LOADING_WAIT_S
    kv_bits: int = 0
    context: int = CONTEXT_DEFAULT
    wire: Coding = "same"
    wait_for: int = 1
    named_finish: Literal["tool_calls", "stop"] = "tool_calls"
    aliases: tuple[tuple[str, str], ...] = ()
    speculation: bool = True
    draft_model: str = ""
    home: Path | None = None
    state: Path | None = None
    trace: Path | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise BadRequest(f"--name {self.name!r}: use up to 63 letters, digits, '.', '_' and '-'", param="name")
        if self.context < 16:
            raise BadRequest("--context must be at least 16 tokens", param="context")
        if self.insecure and self.join is not None:
            raise BadRequest("--join makes connections secure: leave --insecure out", param="join")
        if self.insecure:
            check_insecure(self.listen_host)
        if not 1 <= self.queue_max <= QUEUE_LIMIT:
            raise BadRequest(f"--queue must be 1 to {QUEUE_LIMIT} requests", param="queue")
        if self.kv_bits not in (0, 4, 8):
            raise BadRequest("--kv-bits must be 8 or 4, or 0 for caches as they are computed", param="kv_bits")
        if self.draft_model and not self.speculation:
            raise BadRequest("--draft-model guesses tokens: leave --no-speculation out", param="draft_model")
        if self.loading_wait_s < 0:
            raise BadRequest("--loading-wait must be 0 or some seconds", param="loading_wait")
        if self.keep_responses < 0:
            raise BadRequest("--keep-responses must be a number, or 0 for none", param="keep_responses")
        if self.idle_unload_s < 0:
            raise BadRequest("--idle-unload must be 0 (never) or some minutes", param="idle_unload")
        if self.api_tls and self.api_cert is not None:
            raise BadRequest("--api-cert brings its own certificate: leave --api-tls out", param="api_cert")

    @property
    def listen_host(self) -> str:
        """Where this node listens for others: the given host, or every interface; loopback without encryption."""
        if self.host:
            return self.host
        if self.insecure:
            return "127.0.0.1"
        return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


def check_insecure(*hosts: str) -> str:
    """What to say at every start without encryption between nodes.

    Raises BadRequest unless every address that other nodes can reach is this machine's loopback.
    """
    for host in hosts:
        if not _is_loopback(host):
            raise BadRequest(
                f"--insecure is for tests on 127.0.0.1 and ::1 only, not for {host}: leave it out, and let other "
                "machines in with ringleader cluster invite",
                param="insecure",
            )
    return "--insecure: nodes speak in the clear and believe anybody on this machine. For tests only."


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def default_name() -> str:
    """This machine's short host name, made fit to be a node's name."""
    short = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().split(".")[0]).strip("-._")
    return short[:63] or "node"


def parse_layers(text: str) -> tuple[tuple[str, int, int], ...]:
    """`a=0-14,b=15-29` to ((a, 0, 15), (b, 15, 30)). Raises BadRequest naming the part that is wrong."""
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"([^=\s]+)=(\d+)(?:-(\d+))?", part)
        if found is None:
            raise BadRequest(f"--layers: {part!r} is not node=first-last, as in a=0-14,b=15-29", param="layers")
        first, last = int(found[2]), int(found[3] or found[2])
        if last < first:
            raise BadRequest(f"--layers: {part!r} ends before it begins", param="layers")
        ranges.append((found[1], first, last + 1))
    return tuple(ranges)
