"""A ring of real shard processes on loopback, as the node makes it, without the node's decisions around it."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import grpc.aio

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.supervisor import SHARD_PROGRAM, ShardStart, Supervisor
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import LayerRange, PlanHash, RequestId, Sampling, SlotSpec
from ringleader.wire import PROTOCOL_VERSION

START_DEADLINE_S = 90.0
ANSWER_DEADLINE_S = 400.0


def greedy(prompt: tuple[int, ...], max_tokens: int) -> SlotSpec:
    """What the ring must know of a plain greedy request."""
    return SlotSpec(Sampling(seed=0, temperature=0.0), max_tokens=max_tokens, prompt_tokens=len(prompt))


@dataclass
class Received:
    """What came back for one request. `news` keeps every report, in order."""

    news: list[Tokens] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    first: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tokens(self) -> list[int]:
        return [token for each in self.news for token in each.tokens]


class RealRing:
    """Shards of `sizes` layers each. `breaks` are the reasons that the head or the client gave for a loss.
    `draft_model` is that of the head; with a `pace` shards take the time of other machines."""

    def __init__(
        self,
        directory: Path,
        sizes: tuple[int, ...],
        kv_tokens_max: int = 1 << 20,
        draft_model: Path | None = None,
        pace: str = "",
    ) -> None:
        self.plan = PlanHash(secrets.token_hex(16))
        self.breaks: list[str] = []
        self.broke = asyncio.Event()
        self.log: deque[RequestId] = deque(maxlen=10_000)  # whose tokens came, in order
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        program = (*SHARD_PROGRAM, "--pace", pace) if pace else SHARD_PROGRAM
        self._supervisor = Supervisor("ring", self._events.put_nowait, program)
        self._requests: dict[RequestId, Received] = {}
        stops = list(accumulate(sizes))
        self._starts = [
            ShardStart(
                plan=self.plan,
                index=index,
                directory=directory,
                layers=LayerRange(stop - size, stop),
                layer_count=stops[-1],
                host="127.0.0.1",
                kv_tokens_max=kv_tokens_max,
                draft_model=None if index else draft_model,
            )
            for index, (size, stop) in enumerate(zip(sizes, stops, strict=True))
        ]
        self.addresses: tuple[str, ...] = ()
        self.epoch = 0
        self._client: RingClient | None = None

    async def __aenter__(self) -> RealRing:
        try:
            await self._start()
            await self.link()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()
        await self._supervisor.stop_all()

    async def _start(self) -> None:
        for start in self._starts:
            self._supervisor.start(start)
        addresses: dict[int, str] = {}
        async with asyncio.timeout(START_DEADLINE_S):
            while len(addresses) < len(self._starts):
                event = await self._events.get()
                assert not isinstance(event, ShardDied), event
                if isinstance(event, ShardBecameReady):
                    addresses[event.index] = event.address
        self.addresses = tuple(addresses[index] for index in range(len(addresses)))

    async def link(self) -> None:
        """Link (again) in a new epoch."""
        if self._client is not None:
            await self._client.close()
        self.epoch += 1
        self.broke.clear()
        self._client = RingClient(self.plan, self.epoch, self._on_tokens, self._on_break)
        await self._client.open(self.addresses)

    def _on_tokens(self, request: RequestId, tokens: Tokens) -> None:
        received = self._requests[request]
        received.news.append(tokens)
        if tokens.tokens:
            self.log.append(request)
            received.first.set()
        if tokens.finish:
            received.ended.set()

    def _on_break(self, reason: str) -> None:
        self.breaks.append(reason)
        self.broke.set()

    def submit(self, prompt: tuple[int, ...], spec: SlotSpec) -> tuple[RequestId, Received]:
        """Hand a request to the head."""
        assert self._client is not None
        request = RequestId(secrets.token_hex(4))
        self._requests[request] = Received()
        self._client.submit(request, prompt, spec)
        return request, self._requests[request]

    def cancel(self, request: RequestId) -> None:
        assert self._client is not None
        self._client.cancel(request)

    async def answer(self, prompt: tuple[int, ...], max_tokens: int) -> list[int]:
        """Greedy tokens after `prompt`, to the end."""
        _, received = self.submit(prompt, greedy(prompt, max_tokens))
        return await ended(received)

    async def hellos(self) -> list[pb.HelloReply]:
        """What each shard says of itself now."""
        return [await hello(address) for address in self.addresses]

    async def slots(self) -> list[int]:
        """Live slots on each shard."""
        return [reply.slots for reply in await self.hellos()]


async def ended(received: Received) -> list[int]:
    """Wait for a request's end; its tokens."""
    async with asyncio.timeout(ANSWER_DEADLINE_S):
        await received.ended.wait()
    assert received.news[-1].finish != "error", received.news[-1].error
    return received.tokens


async def until(condition: Callable[[], Awaitable[bool]], deadline_s: float = 30.0) -> None:
    """Ask again and again until `condition` holds."""
    async with asyncio.timeout(deadline_s):
        while not await condition():  # noqa: ASYNC110  # the condition is in another process
            await asyncio.sleep(0.02)


async def hello(address: str) -> pb.HelloReply:
    async with grpc.aio.insecure_channel(address) as channel:
        reply: pb.HelloReply = await rpc.RingStub(channel).Hello(pb.HelloRequest(version=PROTOCOL_VERSION), timeout=30)
        return reply
