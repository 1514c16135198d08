"""The master's hand on a ring: links its shards, then talks to its head.

Decides nothing: a break is told to the caller, once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio

from ringleader.cluster.plan import Plan
from ringleader.cluster.words import NO_TERM, Term
from ringleader.errors import NotTrusted, RingLost
from ringleader.trust.channels import open_channel
from ringleader.trust.credentials import Credentials
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import Coding, Fault, Finish, NodeId, PlanHash, RequestId, SlotSpec, TokenLogprob
from ringleader.wire import (
    CODING_TO_WIRE,
    DIAL_DEADLINE_S,
    EPOCH_KEY,
    FAULT_FROM_WIRE,
    FINISH_FROM_WIRE,
    PROTOCOL_VERSION,
    RING_MESSAGE_BYTES_MAX,
    channel_options,
    logprobs_from_wire,
    spec_to_wire,
)

LINK_DEADLINE_S = 30.0
ORDERS_MAX = 4096  # orders that a head may leave unread; it reads each at once, so past that it is as good as gone


@dataclass(frozen=True, slots=True)
class Tokens:
    """News of one request: new tokens (perhaps none: a prompt chunk is done) and how far it is.

    `cached` tokens of the prompt were not computed: a kept prefix had them. Kept prefixes take `kept_tokens` of room
    in the ring now. `shard_s`, told with `finish`, are the seconds that each shard computed in its passes. `fault` says
    whose the error is, where it is not the ring's own.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish: Finish
    error: str
    passes: int
    prompt_done: int
    frame_bytes: int
    fault: Fault = "ours"
    drawn: int = 1  # of `tokens`: the others were forced
    drafted: int = 0  # tokens that were guessed for this request, so far
    accepted: int = 0  # those of them that are in the answer
    cached: int = 0
    kept_tokens: int = 0
    shard_s: tuple[float, ...] = ()


@dataclass(slots=True)
class RingClient:
    """One linked ring, one epoch. `on_tokens(request, tokens)` and `on_break(reason)` are called on the loop.

    With credentials, the shard at each place must be that of the node at the same place of `nodes`; where `nodes` is
    empty, any member's. `whole` lets shards of the same layers take this plan on; `term` is the master's. Without
    `batches` requests take turns, without `prefixes` none are kept: to measure what that is worth. `coding` is that of
    activations. `machines` says which shards share one, where addresses do not tell. Without `drafts` none are made, as
    where a shard cannot step back.
    """

    plan: PlanHash
    epoch: int
    on_tokens: Callable[[RequestId, Tokens], None]
    on_break: Callable[[str], None]
    credentials: Credentials | None = None
    nodes: tuple[NodeId, ...] = ()
    term: Term = NO_TERM
    whole: Plan | None = None
    batches: bool = True
    coding: Coding = "same"
    prefixes: bool = True
    machines: tuple[int, ...] = ()
    drafts: bool = True
    silent: int | None = None  # the shard that did not answer when the ring was linked
    _channel: grpc.aio.Channel | None = None
    _call: grpc.aio.StreamStreamCall[pb.HeadOrder, pb.HeadReport] | None = None
    _reader: asyncio.Task[None] | None = None
    _orders: asyncio.Queue[pb.HeadOrder | None] = field(default_factory=lambda: asyncio.Queue(maxsize=ORDERS_MAX))
    _closed: bool = False

    async def open(self, addresses: tuple[str, ...]) -> None:
        """Link the shards at `addresses` into a ring and open the stream to its head.

        Raises RingLost naming the shard that does not answer (its index is then in `silent`) or refuses.
        """
        channels = [self._dial(addresses, i) for i in range(len(addresses))]
        async with asyncio.timeout(LINK_DEADLINE_S), contextlib.AsyncExitStack() as stack:
            stubs = [rpc.RingStub(await stack.enter_async_context(channel)) for channel in channels]
            # First all greetings: a frozen shard would also make its neighbour's linking fail, and hide behind it.
            greeted = await asyncio.gather(*(self._greet(stub, i, addresses[i]) for i, stub in enumerate(stubs)))
            await asyncio.gather(*(self._link(stub, i, addresses, greeted) for i, stub in enumerate(stubs)))
        if self._closed:
            raise RingLost("the ring was closed while it was linked")
        self._channel = self._dial(addresses, 0)
        self._call = rpc.RingStub(self._channel).Serve(self._sent(), metadata=((EPOCH_KEY, str(self.epoch)),))
        self._reader = asyncio.create_task(self._read(), name=f"head of {self.plan[:8]}")

    def _dial(self, addresses: tuple[str, ...], index: int) -> grpc.aio.Channel:
        peer = self.nodes[index] if self.nodes else None
        try:
            return open_channel(addresses[index], channel_options(RING_MESSAGE_BYTES_MAX), self.credentials, peer)
        except NotTrusted as error:
            raise RingLost(f"the shard at {addresses[index]} cannot be linked: {error}") from error

    async def _greet(self, stub: rpc.RingStub, index: int, address: str) -> pb.HelloReply:
        hello = pb.HelloRequest(version=PROTOCOL_VERSION)
        try:
            reply: pb.HelloReply = await stub.Hello(hello, timeout=DIAL_DEADLINE_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                self.silent = index
                raise RingLost(f"the shard at {address} did not answer for {DIAL_DEADLINE_S:.0f} s") from error
            raise RingLost(_cannot_link(address, error)) from error
        return reply

    async def _link(
        self, stub: rpc.RingStub, index: int, addresses: tuple[str, ...], greeted: Sequence[pb.HelloReply]
    ) -> None:
        following = addresses[(index + 1) % len(addresses)] if len(addresses) > 1 else ""
        request = pb.LinkRequest(
            plan=bytes.fromhex(self.plan),
            epoch=self.epoch,
            index=index,
            shards=len(addresses),
            next_address=following,
            term=self.term.number,
            master=self.term.node,
            share=self._share(index),
            slot_tokens=max(each.slot_tokens for each in greeted),
            drafts=self.drafts and all(each.steps_back for each in greeted),
            coding=CODING_TO_WIRE[self.coding],
            ride=min(reply.ride for reply in greeted) if self.batches else pb.RIDE_ALONE,  # what every shard can
            no_prefixes=not self.prefixes,
            state_tokens=max(reply.state_tokens for reply in greeted),
            machines=self.machines or _machines(addresses),
            next_node=self.nodes[(index + 1) % len(addresses)] if self.nodes else "",
        )
        try:
            await stub.Link(request, timeout=LINK_DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            raise RingLost(_cannot_link(addresses[index], error)) from error

    def _share(self, index: int) -> pb.Share | None:
        if self.whole is None:
            return None
        layers = self.whole.stages[index].layers
        return pb.Share(
            digest=self.whole.digest,
            first_layer=layers.start,
            stop_layer=layers.stop,
            layers=self.whole.layers,
            kv_tokens=self.whole.kv_tokens,
            kv_bits=self.whole.kv_bits,
        )

    async def _sent(self) -> AsyncIterator[pb.HeadOrder]:
        while (order := await self._orders.get()) is not None:
            yield order

    def submit(self, request: RequestId, prompt: tuple[int, ...], spec: SlotSpec, priority: int = 0) -> None:
        """Hand a request to the head; its tokens come through `on_tokens`. Raises RingLost when it is closed."""
        submit = pb.Submit(request=request, prompt=prompt, spec=spec_to_wire(spec), priority=priority)
        self._put(pb.HeadOrder(submit=submit))

    def cancel(self, request: RequestId) -> None:
        """Stop a request at its next pass; unknown ones are no error."""
        if not self._closed:
            with contextlib.suppress(RingLost):  # told through `on_break`
                self._put(pb.HeadOrder(cancel=pb.Cancel(request=request)))

    def _put(self, order: pb.HeadOrder) -> None:
        if self._closed:
            raise RingLost("the ring is closed")
        try:
            self._orders.put_nowait(order)
        except asyncio.QueueFull as error:
            self._broke(unread := "the head does not read its orders")
            raise RingLost(unread) from error

    def _broke(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self.on_break(reason)

    async def _read(self) -> None:
        assert self._call is not None
        reason = "the head closed its stream"
        try:
            async for report in self._call:
                if not report.request:
                    reason = report.error
                    break
                self.on_tokens(RequestId(report.request), _tokens(report))
        except grpc.aio.AioRpcError as error:
            reason = f"the head is gone: {error.details() or error.code().name}"
        self._no_more_orders()
        self._broke(reason)

    def _no_more_orders(self) -> None:
        """End the task that sends them: gRPC leaves it waiting for ever where the other side ends the stream."""
        while not self._orders.empty():
            self._orders.get_nowait()
        self._orders.put_nowait(None)

    async def close(self) -> None:
        """Hang up; the head cancels what it still had."""
        self._closed = True
        self._no_more_orders()
        if self._reader is not None:
            self._reader.cancel()
        if self._call is not None:
            self._call.cancel()
        if self._channel is not None:
            await self._channel.close(None)


def _machines(addresses: tuple[str, ...]) -> list[int]:
    """The machine of each shard, as numbers: one host is one machine."""
    hosts = [address.rpartition(":")[0] for address in addresses]
    return [hosts.index(host) for host in hosts]


def _cannot_link(address: str, error: grpc.aio.AioRpcError) -> str:
    return f"the shard at {address} cannot be linked: {error.details() or error.code().name}"


def _tokens(report: pb.HeadReport) -> Tokens:
    tokens = tuple(report.tokens)
    return Tokens(
        tokens=tokens,
        logprobs=logprobs_from_wire(tokens, report.logprobs),
        finish=FINISH_FROM_WIRE[report.finish],
        error=report.error,
        passes=report.passes,
        prompt_done=report.prompt_done,
        frame_bytes=report.frame_bytes,
        fault=FAULT_FROM_WIRE[report.fault],
        drawn=report.drawn,
        drafted=report.drafted,
        accepted=report.accepted,
        cached=report.cached,
        kept_tokens=report.kept_tokens,
        shard_s=tuple(micros / 1e6 for micros in report.shard_us),
    )
