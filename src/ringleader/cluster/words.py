"""What nodes say to each other, and the values that words are made of.

Plain data. Words are one-way and may be lost, repeated, late or out of order: what matters is said again until
beats show that it was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ringleader.cluster.plan import Plan
from ringleader.cluster.timing import Link
from ringleader.values import Draft, ModelCosts, NodeId, PlanHash

# ---------------------------------------------------------------- what words and events are made of


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """A node as it describes itself. `host` is where its shards can be dialled, `control` (host:port each)
    where its control plane can.

    `memory_held_bytes` is what its shards held when `memory_free_bytes` was measured (the machine fills it in).
    `bytes_per_s` is how fast it goes through weights when it decodes, as measured (0: not measured, the chip's
    name tells), and `measured_by` says with what; `links` is how it reaches other nodes, as far as it measured that.
    `holds` are the digests of the models whose files it has (None: not told, it may have any).
    """

    node: NodeId
    name: str
    host: str
    chip: str
    memory_total_bytes: int
    memory_free_bytes: int
    control: tuple[str, ...] = ()
    bytes_per_s: float = 0.0
    links: tuple[Link, ...] = ()
    memory_held_bytes: int = 0
    measured_by: str = ""
    temperature_c: float | None = None
    holds: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """One node's time as master. Ordered as a pair; a node never claims a number that it has seen, so one term
    has one master."""

    number: int
    node: NodeId


NO_TERM = Term(0, NodeId(""))  # lower than any that is claimed


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What the operator asks of a plan. `layers` ("a=0-14,b=15-29" already parsed) overrides all;
    `shards` asks for that many shards, spread over the nodes; neither: what serves `objective` best, the
    lowest time a token of one stream or the most tokens of many. Nodes named in `exclude` take no part."""

    context_tokens: int
    streams: int = 1  # requests of full length whose KV caches must fit side by side
    shards: int | None = None
    layers: tuple[tuple[str, int, int], ...] = ()  # (node name, start, stop), in ring order
    objective: Literal["latency", "throughput"] = "latency"
    exclude: tuple[str, ...] = ()
    kv_bits: int = 0  # of keys and values in the caches: 8, 4, or 0 for as they are computed
    draft: Draft | None = None  # of the model that makes drafts


@dataclass(frozen=True, slots=True)
class RingWanted:
    """Event: the operator of this node wants the model ready. The wish stands while the node lives (it travels
    in its beats). `reference` finds the model on any node (a store name or a path); "" is the model's id."""

    costs: ModelCosts
    wish: PlanWish
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a node must know of a plan to run a shard of it, and a new master to take the whole ring over.

    `term` is the one in which the plan was made; `standing` that an operator wants the model ready.
    """

    plan: Plan
    costs: ModelCosts
    wish: PlanWish
    standing: bool
    reference: str
    term: Term


ReportedState = Literal["loading", "ready", "stopping", "dead"]


@dataclass(frozen=True, slots=True)
class ShardReport:
    """A shard as the node that runs it knows it. `attempt` counts the starts of this shard: a process is named
    by (plan, index, attempt). A dead one is reported for a while, with `reason` and `permanent` as in ShardDied."""

    assignment: Assignment
    index: int
    attempt: int
    state: ReportedState
    progress: float = 0.0
    address: str = ""
    memory_bytes: int = 0
    pid: int = 0
    reason: str = ""
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Contact:
    """Where a node's control plane can be dialled."""

    node: NodeId
    addresses: tuple[str, ...]


# ---------------------------------------------------------------- words: lost, repeated, late or out of order


@dataclass(frozen=True, slots=True)
class Beat:
    """Everything that a node says of itself, every BEAT_S to every peer, and at once when it matters.

    `incarnation` is greater at each start of the node, and `count` with each beat of one incarnation, so that
    a late one changes nothing. `follows` is the term obeyed now (its own while it leads), None while it looks for
    a master; `fence` the highest term ever obeyed: orders of lower ones are refused. `hears` are the peers whose
    beats arrive here, `contacts` how to dial them. `leaving`: its last beat, it was told to stop.
    """

    profile: NodeProfile
    incarnation: int
    count: int
    follows: Term | None
    fence: Term
    hears: tuple[NodeId, ...]
    contacts: tuple[Contact, ...] = ()
    shards: tuple[ShardReport, ...] = ()
    wants: tuple[RingWanted, ...] = ()
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Run this shard. Idempotent: an attempt that is known changes nothing; it is sent again until beats show it.

    `instead_of` (plan, index) is a shard of the same layers and files that may take this one's name and
    go on, weights and all; where it is gone, the shard is started as any other.
    """

    term: Term
    assignment: Assignment
    index: int
    attempt: int
    instead_of: tuple[PlanHash, int] | None = None


@dataclass(frozen=True, slots=True)
class StopOrder:
    """End this shard. Idempotent; sent again until beats show it."""

    term: Term
    plan: PlanHash
    index: int


Word = Beat | StartOrder | StopOrder
