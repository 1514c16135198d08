"""Who this node is, as its state directory keeps it: id, term, and its place in a cluster."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ringleader.config import NodeOptions, check_insecure
from ringleader.errors import NodeUnreachable
from ringleader.net.joining import join
from ringleader.trust.cluster import open_membership
from ringleader.trust.credentials import Credentials, load, node_id, read_term, state_directory
from ringleader.trust.private_files import read_json, write_json
from ringleader.trust.revocations import FORGOTTEN, load_list
from ringleader.values import NodeId

RUNNING_FILE = "running.lock"
STARTS_FILE = "starts.json"

Came = Literal["made", "joined", "member"]

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class Identity:
    """`term` is the highest number kept; `incarnation` grows with every start; `peers` are the control addresses told
    when this node joined. `came` is how it came into its cluster: it made it or joined it at this start, or before;
    None without one."""

    node: NodeId
    term: int
    incarnation: int
    state: Path
    credentials: Credentials | None
    peers: tuple[str, ...]
    came: Came | None = None


async def identify(options: NodeOptions, stack: AsyncExitStack) -> Identity:
    """Open the state directory, which is this process' alone until `stack` ends; join or found a cluster.

    Raises NodeUnreachable when another node runs with this directory, NotTrusted when it cannot be used or the
    invitation is not good.
    """
    state = options.state or state_directory(options.home)
    node = node_id(state)
    _hold(state, stack)
    if options.insecure:
        log.warning("%s", check_insecure(options.listen_host))
        return Identity(node, read_term(state), _incarnation(state), state, None, ())
    before = load(state)
    came: Came = "made" if options.join is None else "joined"
    if options.join is not None:
        credentials = await join(options.join, state, options.name)
    else:
        credentials = open_membership(state, options.name, time.time())
    if before is not None and before.cluster == credentials.cluster:
        came = "member"
    if credentials.node in load_list(credentials).nodes:
        log.error("%s", FORGOTTEN)
    return Identity(
        credentials.node, read_term(state), _incarnation(state), state, credentials, credentials.peers, came
    )


def _incarnation(state: Path) -> int:
    """Greater than at any start before, also when the clock went back: a lower one's beats count as late ones."""
    last = (read_json(state / STARTS_FILE) or {}).get("incarnation")
    number = max(time.time_ns(), last + 1 if isinstance(last, int) else 0)
    write_json(state / STARTS_FILE, {"incarnation": number})
    return number


def _hold(state: Path, stack: AsyncExitStack) -> None:
    handle = os.open(state / RUNNING_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise NodeUnreachable(
            f"a node runs with {state} already; another one on this machine needs a directory of its own: --state DIR"
        ) from error
