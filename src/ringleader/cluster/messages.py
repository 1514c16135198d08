"""What a node's machine hears (events, past tense) and orders (effects, imperative); the words are in words.py.

Plain data. `member.Member.step(event, now)` turns one event into effects; `node/perform.py` carries them out
and feeds what comes of it back as events. Nothing here may do anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ringleader.cluster.plan import Plan
from ringleader.cluster.words import (
    NO_TERM,
    Assignment,
    Beat,
    Contact,
    NodeProfile,
    PlanWish,
    ReportedState,
    RingWanted,
    ShardReport,
    StartOrder,
    StopOrder,
    Term,
    Word,
)
from ringleader.errors import RingleaderError
from ringleader.values import ModelCosts, ModelId, NodeId, PlanHash, RequestId

# Whoever deals in messages finds the words here too.
__all__ = [
    "NO_TERM",
    "Assignment",
    "Beat",
    "Contact",
    "NodeProfile",
    "PlanWish",
    "ReportedState",
    "RingWanted",
    "ShardReport",
    "StartOrder",
    "StopOrder",
    "Term",
    "Word",
]

# ---------------------------------------------------------------- events: from the network


@dataclass(frozen=True, slots=True)
class Heard:
    """A word arrived. `peer` is who the transport knows the sender to be, not who the word says it is."""

    peer: NodeId
    word: Word


@dataclass(frozen=True, slots=True)
class PeerFound:
    """Discovery or the operator names addresses; `node` where it is known. Proves nothing."""

    addresses: tuple[str, ...]
    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class PeerUp:
    """The stream to this peer stands: words sent now can arrive."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class PeerDown:
    """The stream to or from this peer broke: a suspicion at once, not a proof."""

    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class Woke:
    """This machine slept (the wall clock ran ahead of the monotonic one): what was heard before is stale."""

    slept_s: float


@dataclass(frozen=True, slots=True)
class StopAsked:
    """This node was told to end: it says goodbye, so that nobody has to wait for its silence."""


# ---------------------------------------------------------------- events: nodes, shards, rings, requests


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """To a leadership: the node follows from now on. `shards` are those that it brings; None: not told."""

    profile: NodeProfile
    shards: tuple[ShardReport, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeReported:
    """What is free on the node now; of the node itself from its own telemetry. `profile` where the rest of it
    changed too; `shards` None: not told."""

    node: NodeId
    memory_free_bytes: int
    shards: tuple[ShardReport, ...] | None = None
    profile: NodeProfile | None = None


@dataclass(frozen=True, slots=True)
class NodeLost:
    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class ShardBecameReady:
    plan: PlanHash
    index: int
    address: str
    memory_bytes: int
    pid: int


@dataclass(frozen=True, slots=True)
class ShardMadeProgress:
    plan: PlanHash
    index: int
    fraction: float


@dataclass(frozen=True, slots=True)
class ShardDied:
    """The process ended, or never became ready. `permanent`: the model itself is at fault, so that starting
    the shard again would end the same way."""

    plan: PlanHash
    index: int
    reason: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class RingLinked:
    """Every shard of the plan has dialled its next one in this epoch, and the head serves."""

    plan: PlanHash
    epoch: int


@dataclass(frozen=True, slots=True)
class RingBroke:
    """Linking failed, or the head lost a link or its progress, in this epoch. `silent` is a shard that did not
    answer at all: its process lives, but is frozen."""

    plan: PlanHash
    epoch: int
    reason: str
    silent: int | None = None


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A request whose prompt is ready. `deadline` is on the clock of `step`'s `now`, in seconds; so is `wait_until`,
    after which it is told that its model is being loaded, if it still is (None: it waits to its deadline)."""

    request: RequestId
    costs: ModelCosts
    wish: PlanWish
    deadline: float
    reference: str = ""
    wait_until: float | None = None


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """The head reported its end, or the ingress saw an error."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The client left, or a stop string was found."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; deadlines and backoffs are looked at."""


Event = (
    NodeJoined
    | NodeReported
    | NodeLost
    | RingWanted
    | ShardBecameReady
    | ShardMadeProgress
    | ShardDied
    | RingLinked
    | RingBroke
    | RequestArrived
    | RequestEnded
    | RequestCancelled
    | Ticked
    | Heard
    | PeerFound
    | PeerUp
    | PeerDown
    | Woke
    | StopAsked
)

# ---------------------------------------------------------------- effects: to the network, the disk, the supervisor


@dataclass(frozen=True, slots=True)
class Send:
    """Send the word if there is a stream to that peer; drop it otherwise. Never wait for it."""

    to: NodeId
    word: Word


@dataclass(frozen=True, slots=True)
class Dial:
    """Keep a stream to the peer at one of these addresses, trying again for ever. Answered by PeerUp, PeerDown."""

    addresses: tuple[str, ...]
    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Redial:
    """Give up every stream and dial anew: after a sleep they may be dead without knowing."""


@dataclass(frozen=True, slots=True)
class PersistTerm:
    """Write the number to disk before anything that follows is performed; handed in again at the next start."""

    number: int


@dataclass(frozen=True, slots=True)
class FollowMaster:
    """From now on requests of this node's API go to the master of this term; None: nowhere, until the next."""

    term: Term | None


@dataclass(frozen=True, slots=True)
class RunShard:
    """Start the shard's process on this node. Answered by ShardMadeProgress, ShardBecameReady, ShardDied."""

    assignment: Assignment
    index: int


@dataclass(frozen=True, slots=True)
class EndShard:
    """End the shard's process on this node. Answered by ShardDied when it is gone."""

    plan: PlanHash
    index: int


@dataclass(frozen=True, slots=True)
class RenameShard:
    """The process that runs (`plan`, `index`) on this node is from now on `new_index` of the assignment's plan:
    its events carry the new name. The process itself learns it when it is linked."""

    plan: PlanHash
    index: int
    assignment: Assignment
    new_index: int


# ---------------------------------------------------------------- effects: the master's


@dataclass(frozen=True, slots=True)
class StartShard:
    """The master's decision; the machine makes a StartOrder of it, or RunShard on its own node."""

    node: NodeId
    plan: Plan
    index: int
    attempt: int = field(default=1, compare=False)
    instead_of: tuple[PlanHash, int] | None = None


@dataclass(frozen=True, slots=True)
class StopShard:
    """The master's decision, as StartShard. Until the shard is reported dead its memory is not free."""

    node: NodeId
    plan: PlanHash
    index: int


@dataclass(frozen=True, slots=True)
class LinkRing:
    """Link the shards at `addresses` (ring order) and open the head. Answered by RingLinked or RingBroke.

    (`term.number`, `term.node`, `epoch`) is the fence: a shard refuses what is not higher than it has seen. A shard
    takes the plan's hash on when layers and model digest are those that `whole` gives its place.
    """

    plan: PlanHash
    epoch: int
    addresses: tuple[str, ...]
    term: Term = field(default=NO_TERM, compare=False)
    whole: Plan | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CloseRing:
    """Close the stream to the head; no answer."""

    plan: PlanHash


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Submit the request to the plan's head."""

    request: RequestId
    plan: PlanHash


@dataclass(frozen=True, slots=True)
class CancelAtHead:
    request: RequestId
    plan: PlanHash


@dataclass(frozen=True, slots=True)
class FailRequest:
    """End the request with this error; it is already out of the table."""

    request: RequestId
    error: RingleaderError


TellKind = Literal[
    "note",
    "node_joined",
    "node_lost",
    "name_taken",
    "master_elected",
    "master_followed",
    "master_lost",
    "stepped_down",
    "woke",
    "plan_made",
    "plan_dropped",
    "plan_refused",
    "ring_adopted",
    "ring_serves",
    "ring_broke",
    "ring_given_up",
    "ring_moved",
    "ring_unloaded",
    "shard_stray",
]


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the log, the status page and /v1/cluster/events: what was decided and why."""

    text: str
    model: ModelId | None = field(default=None)
    kind: TellKind = field(default="note", compare=False)


Effect = (
    StartShard
    | StopShard
    | LinkRing
    | CloseRing
    | Dispatch
    | CancelAtHead
    | FailRequest
    | Tell
    | Send
    | Dial
    | Redial
    | PersistTerm
    | FollowMaster
    | RunShard
    | EndShard
    | RenameShard
)
