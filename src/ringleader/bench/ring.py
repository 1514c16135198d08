"""Real rings to measure: shard processes under a supervisor, linked and driven as the master does it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ringleader.bench.conditions import AS_IT_IS, Conditions
from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied
from ringleader.errors import ModelFault, RingLost
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.supervisor import ShardStart, Supervisor
from ringleader.values import Coding, LayerRange, PlanHash, RequestId, SlotSpec, TokenLogprob

READY_DEADLINE_S = 300.0
SILENCE_DEADLINE_S = 120.0  # between two reports of a request
KV_TOKENS_MAX = 16_384
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Run:
    """One request, measured. `arrivals` holds (seconds since it was submitted, tokens that came then)."""

    tokens: tuple[int, ...]
    arrivals: tuple[tuple[float, int], ...]
    passes: int
    forced_tokens: int
    frame_bytes: int
    logprobs: tuple[TokenLogprob, ...] = ()
    started_s: float = 0.0  # of time.perf_counter
    cached_tokens: int = 0  # of the prompt, not computed

    @property
    def first_s(self) -> float:
        """From submitting to the first token."""
        return self.arrivals[0][0]

    @property
    def wall_s(self) -> float:
        """From submitting to the last token."""
        return self.arrivals[-1][0]

    @property
    def token_s(self) -> float:
        """Seconds a token once the first has come: the prompt is not in it.

        Raises ModelFault when no second one came.
        """
        later = sum(count for _, count in self.arrivals[1:])
        if not later:
            raise ModelFault("the model ended its answer after one token; its speed cannot be told")
        return (self.arrivals[-1][0] - self.arrivals[0][0]) / later


@dataclass(slots=True)
class BenchRing:
    """One linked ring. Requests may be asked one after the other or at once."""

    shards: int
    _client: RingClient
    _ear: Ear
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def ask(
        self,
        prompt: tuple[int, ...],
        spec: SlotSpec,
        begun: asyncio.Event | None = None,
        enough: asyncio.Event | None = None,
    ) -> Run:
        """Submit one request and wait for its end; `begun` is set by its second token. When `enough` is set, it is
        cancelled with its next token.

        Raises RingLost when it does not come to an end.
        """
        arrivals: list[tuple[float, int]] = []
        tokens: list[int] = []
        logprobs: list[TokenLogprob] = []
        forced = 0
        started = time.perf_counter()
        request = RequestId(f"bench-{next(self._numbers)}")
        with self._ear.listening(request) as heard:
            self._client.submit(request, prompt, spec)
            while True:
                arrived, news = await _next(heard)
                if news.finish == "error":
                    raise RingLost(f"a shard could not answer: {news.error}")
                if news.tokens:
                    arrivals.append((arrived - started, len(news.tokens)))
                    tokens += news.tokens
                    logprobs += news.logprobs
                    forced += len(news.tokens) - news.drawn
                if begun is not None and len(tokens) > 1:
                    begun.set()
                stopped = enough is not None and enough.is_set()
                if stopped and not news.finish:
                    self._client.cancel(request)
                if news.finish or stopped:
                    return Run(
                        tuple(tokens),
                        tuple(arrivals),
                        news.passes,
                        forced,
                        news.frame_bytes,
                        tuple(logprobs),
                        started,
                        news.cached,
                    )


News = asyncio.Queue["tuple[float, Tokens] | str"]


class Ear:
    """Hands each request's news to whoever listens for it, and a break to all."""

    def __init__(self) -> None:
        self._queues: dict[RequestId, News] = {}

    @contextmanager
    def listening(self, request: RequestId) -> Iterator[News]:
        """The news of one request for the length of the block."""
        self._queues[request] = asyncio.Queue()
        try:
            yield self._queues[request]
        finally:
            del self._queues[request]

    def tokens(self, request: RequestId, tokens: Tokens) -> None:
        if request in self._queues:
            self._queues[request].put_nowait((time.perf_counter(), tokens))

    def broke(self, reason: str) -> None:
        for queue in self._queues.values():
            queue.put_nowait(reason)


async def _next(heard: News) -> tuple[float, Tokens]:
    try:
        async with asyncio.timeout(SILENCE_DEADLINE_S):
            news = await heard.get()
    except TimeoutError as error:
        raise RingLost(f"no word from the ring for {SILENCE_DEADLINE_S:.0f} s") from error
    if isinstance(news, str):
        raise RingLost(news)
    return news


@asynccontextmanager
async def open_ring(
    directory: Path,
    layers: int,
    shards: int,
    *,
    batches: bool = True,
    coding: Coding = "same",
    under: Conditions = AS_IT_IS,
) -> AsyncIterator[BenchRing]:
    """A ring of so many shards, cut evenly; its processes end with the block. Without `batches` requests take turns;
    `coding` is that of the activations between shards.

    Raises RingLost when a shard does not become ready, with its own last words.
    """
    loop = asyncio.get_running_loop()
    ready: list[asyncio.Future[str]] = [loop.create_future() for _ in range(shards)]
    ear = Ear()
    programs = [under.program(index) for index in range(shards)]
    supervisors = [Supervisor("bench", lambda event: _heard(event, ready), program) for program in programs]
    plan = PlanHash(secrets.token_hex(16))
    client = RingClient(
        plan=plan,
        epoch=1,
        on_tokens=ear.tokens,
        on_break=ear.broke,
        batches=batches,
        coding=coding,
        machines=under.machines(shards),
    )
    try:
        for index, (supervisor, part) in enumerate(zip(supervisors, even_cuts(layers, shards), strict=True)):
            supervisor.start(ShardStart(plan, index, directory, part, layers, HOST, KV_TOKENS_MAX))
        async with asyncio.timeout(READY_DEADLINE_S):
            addresses = await asyncio.gather(*ready)
        await client.open(tuple(addresses))
        yield BenchRing(shards, client, ear)
    finally:
        await client.close()
        await asyncio.gather(*(supervisor.stop_all() for supervisor in supervisors))


def even_cuts(layers: int, shards: int) -> list[LayerRange]:
    """`layers` cut into `shards` ranges whose sizes differ by one at most."""
    edges = [layers * i // shards for i in range(shards + 1)]
    return [LayerRange(start, stop) for start, stop in itertools.pairwise(edges)]


def _heard(event: Event, ready: list[asyncio.Future[str]]) -> None:
    if isinstance(event, ShardBecameReady) and not ready[event.index].done():
        ready[event.index].set_result(event.address)
    elif isinstance(event, ShardDied) and not ready[event.index].done():
        ready[event.index].set_exception(RingLost(f"shard {event.index} did not start: {event.reason}"))
