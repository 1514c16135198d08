"""What the cluster's state hears (events, past tense) and what it orders (effects, imperative).

Plain data. `state.ClusterState.step(event, now)` turns one event into effects; `node/perform.py` carries
them out and feeds what comes of it back as events. Nothing here may do anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ringleader.cluster.plan import Plan
from ringleader.errors import RingleaderError
from ringleader.values import ModelCosts, ModelId, NodeId, PlanHash, RequestId

# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """A node as it describes itself. `host` is where its shards can be dialled."""

    node: NodeId
    name: str
    host: str
    chip: str
    memory_total_bytes: int
    memory_free_bytes: int


@dataclass(frozen=True, slots=True)
class NodeJoined:
    profile: NodeProfile


@dataclass(frozen=True, slots=True)
class NodeReported:
    """A heartbeat."""

    node: NodeId
    memory_free_bytes: int


@dataclass(frozen=True, slots=True)
class NodeLost:
    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What the operator asks of a plan. `layers` ("a=0-14,b=15-29" already parsed) overrides all;
    `shards` asks for that many shards, spread over the nodes; neither: the fewest nodes that fit."""

    context_tokens: int
    streams: int = 1  # requests of full length whose KV caches must fit side by side
    shards: int | None = None
    layers: tuple[tuple[str, int, int], ...] = ()  # (node name, start, stop), in ring order


@dataclass(frozen=True, slots=True)
class RingWanted:
    """Someone wants the model ready (a request, or a start option)."""

    costs: ModelCosts
    wish: PlanWish


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
    """A request whose prompt is ready. `deadline` is on the clock of `step`'s `now`, in seconds."""

    request: RequestId
    costs: ModelCosts
    wish: PlanWish
    deadline: float


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
)

# ---------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class StartShard:
    node: NodeId
    plan: Plan
    index: int


@dataclass(frozen=True, slots=True)
class StopShard:
    """End the shard's process. Answered by ShardDied when it has ended: until then its memory is not free."""

    node: NodeId
    plan: PlanHash
    index: int


@dataclass(frozen=True, slots=True)
class LinkRing:
    """Link the shards at `addresses` (ring order) and open the head. Answered by RingLinked or RingBroke."""

    plan: PlanHash
    epoch: int
    addresses: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the log and the status page: what was decided and why."""

    text: str
    model: ModelId | None = field(default=None)


Effect = StartShard | StopShard | LinkRing | CloseRing | Dispatch | CancelAtHead | FailRequest | Tell
