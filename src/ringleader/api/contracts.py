"""What the API needs of a node, as Protocols: the API knows no node, the node plugs itself in.

Nothing here does anything; `/v1/cluster`'s JSON is drawn at `ClusterView.cluster`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from ringleader.values import Answer, ChatRequest, Json, ModelId


class Answerer(Protocol):
    """Takes requests in: on the master, or on an ingress that hands them to the master."""

    async def answer(self, request: ChatRequest) -> Answer:
        """Accept `request` and return its answer, whose deltas may still be far away.

        The API closes `answer.deltas` exactly once, whatever happens, from the task that iterated them.

        Raises:
            CallerFault, PeerFault, ModelFault: nothing was scheduled, nothing is streamed.
        """
        ...

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """The bytes of one token of `model`, perhaps a part of a character. Called for logprobs only.

        Never waits: the tokenizer of a model whose answer is being read is in memory.
        """
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key came with a request. `concurrent` answers at once at most, None for any number."""

    name: str
    concurrent: int | None = None


class Keys(Protocol):
    """The keys that open this API."""

    @property
    def asks(self) -> bool:
        """Whether a request needs one. Asked for each request: keys come and go."""
        ...

    def caller(self, key: str) -> Caller | None:
        """Whose key this is; None when it is nobody's."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One line of `/v1/models`. `created` in Unix seconds; `context_max` in tokens where it is known."""

    id: ModelId
    created: int
    loaded: bool
    context_max: int | None = None


class ModelShelf(Protocol):
    """The models that a request may name."""

    async def cards(self) -> list[ModelCard]:
        """All of them, loaded or only stored, each id once."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model's files say, as far as they are known here: 0 and "" for what is not.

    `modified` in Unix seconds; `weights` says dtype and bits ("fp32", "4-bit, fp16"); `parameters` is about right.
    """

    id: ModelId
    loaded: bool
    modified: int
    digest: str = ""
    family: str = ""
    weights: str = ""
    size_bytes: int = 0
    parameters: int = 0
    layers: int = 0
    hidden_size: int = 0
    context_max: int = 0


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """One model in full: its facts, its chat template ("" for none), and whether it reasons."""

    facts: ModelFacts
    template: str
    thinks: bool


@dataclass(frozen=True, slots=True)
class PullStep:
    """How far a pull has come: what is done now, and how much of it in bytes or tensors (0 where it is not known)."""

    stage: str
    done: int = 0
    total: int = 0


class ModelLibrary(Protocol):
    """The models of this node's store and cluster, and how more of them come here."""

    async def facts(self) -> list[ModelFacts]:
        """Of all models that a request may name, each once."""
        ...

    async def details(self, model: ModelId) -> ModelDetails:
        """Of one. May take a second. Raises UnknownModel, ModelFault, ModelUnsupported."""
        ...

    def pull(self, reference: str) -> AsyncGenerator[PullStep, None]:
        """Fetch a model, telling how it goes. Closing it early stops the fetch; what came is kept for the next.

        Raises BadRequest, UnknownModel, ModelFault.
        """
        ...


class Tokenizing(Protocol):
    """How models read text. Any node can answer, for any model that a request may name; each may take a second.

    All raise as `Answerer.answer` does for a model that is not known or cannot be read.
    """

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """The ids of the whole prompt that `request` becomes, however long. Raises what is wrong with the request."""
        ...

    async def encode(self, model: ModelId, text: str, *, framed: bool) -> tuple[int, ...]:
        """The ids of `text`; `framed` adds what the model wants before and after a text (often a BOS token)."""
        ...

    async def decode(self, model: ModelId, tokens: tuple[int, ...]) -> tuple[str, ...]:
        """The text of each of `tokens`, as far as each has one of its own; raises BadRequest for an unknown id."""
        ...

    async def join(self, model: ModelId, tokens: tuple[int, ...]) -> str:
        """The text of all `tokens` together. Raises BadRequest for an unknown id."""
        ...

    async def context_max(self, model: ModelId) -> int:
        """How many tokens prompt and answer may have together."""
        ...


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response as it is kept: its JSON, its own input items, and the response that it followed.

    `owner` is whose key made it, "" where none was asked for. No other key's holder is told of it.
    """

    id: str
    previous: str | None
    created: int
    input: tuple[dict[str, Json], ...]
    body: dict[str, Json]
    owner: str = ""

    def shown_to(self, caller: str) -> bool:
        """Whether `caller` may know of it: its owner, or anybody where nobody had a key."""
        return self.owner in ("", caller)


class ResponseStore(Protocol):
    """Responses that may be asked for again: bounded, the longest unused forgotten first, kept over restarts.

    It belongs to the node that answered, as the client's connection does. Methods raise OurFault when it is broken.
    """

    async def put(self, response: StoredResponse) -> None:
        """Keep it."""
        ...

    async def get(self, response_id: str) -> StoredResponse | None:
        """One response, or None where it was never kept, or is forgotten."""
        ...

    async def chain(self, response_id: str) -> list[StoredResponse]:
        """The response and all that it followed, the oldest first; ends early, at its beginning, where one is gone.

        What is read so counts as used.
        """
        ...

    async def delete(self, response_id: str) -> bool:
        """Forget it; False where there was none."""
        ...

    async def items(self, ids: tuple[str, ...], caller: str) -> dict[str, dict[str, Json]]:
        """The items of any kept response that have these ids and are shown to `caller`."""
        ...


class ClusterView(Protocol):
    """What the node believes of the cluster, ready for JSON."""

    async def cluster(self) -> dict[str, Json]:
        """The body of `/v1/cluster`. Readers take a missing key as unknown, so a node may leave some out.

        ```
        {"name": str, "node": node id,                          # the one that answers
         "version": str, "master": node id | null, "term": int | null, "uptime_s": number,
         "secure": bool, "cluster": {"id": str, "name": str} | null,
         "nodes": [{"id": str, "name": str, "chip": str, "memory_total_bytes": int,
                    "memory_free_bytes": int, "state": "ok" | any other word, "is_master": bool,
                    "host": str, "temperature_c": number | null,
                    "bytes_per_s": number | null,               # how fast it goes through weights, as plans take it,
                    "measured_by": "memory" | "chip" | null,    # by reading memory, or as its chip is known for
                    "links": [{"to": node id, "latency_s": number,      # one way: half a small round trip
                               "bytes_per_s": number}]}],       # as measured from this node
         "rings": [{"model": str, "plan": str, "state": "loading" | "ready" | any other word,
                    "epoch": int, "why": str | null,            # why it is in that state, for people
                    "plan_why": str | null,                     # why it is placed so
                    "predicted": {"tokens_per_s": number,       # of one stream alone, by the figures at planning
                                  "aggregate_tokens_per_s": number, "in_flight": int,   # of so many together
                                  "stage_s": [number], "hop_s": [number]} | null,
                    "context_tokens": int | null,
                    "kv_bits": int | null,                      # of caches that are quantised
                    "draft_model": str | null,                  # for which the plan has room beside the head
                    "stages": [{"node": node id, "name": node name, "first_layer": int,
                                "last_layer": int,              # both inclusive
                                "state": str, "progress": number 0..1 | null,
                                "pid": int | null, "memory_bytes": int | null}],   # in ring order
                    "running": int, "waiting": int, "tokens_per_s": number | null,
                    "last_tokens_per_s": number | null,         # when it was last busy
                    "passes_per_token": number | null, "served_requests": int, "served_tokens": int,
                    "cache": {"kept_tokens": int,               # what is kept takes room for so many tokens
                              "prompt_tokens": int, "cached_tokens": int}}],    # of all; not computed again
         "queue": {"waiting": int, "running": int, "max": int},
         "events": [{"at": Unix seconds, "kind": str, "model": str | null,
                     "text": str, "node": node name}]}          # the newest last, a few dozen at most
        ```
        """
        ...

    def health(self) -> dict[str, Json]:
        """The body of `/health`. Its "status" is "ok", or a word that says why not (then HTTP 503); "models" are those
        that the node was started with."""
        ...
