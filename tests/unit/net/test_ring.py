from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio
import pytest

from ringleader.errors import RingLost
from ringleader.net import ring as room
from ringleader.net.ring import RingClient, Tokens
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import PlanHash, RequestId, Sampling, SlotSpec, TokenLogprob
from ringleader.wire import PROTOCOL_VERSION, spec_from_wire

PLAN = PlanHash("0123456789abcdef0123456789abcdef")
SPEC = SlotSpec(Sampling(seed=7, temperature=0.0), max_tokens=5, prompt_tokens=3, grammar="g", top_logprobs=1)


class Shard(rpc.RingServicer):
    """A shard that links and, as head, lets the test speak; `refusal` makes it refuse its linking."""

    def __init__(self, ride: pb.Ride = pb.RIDE_ALONE) -> None:
        self.ride = ride
        self.refusal = ""
        self.links: list[pb.LinkRequest] = []
        self.orders: asyncio.Queue[pb.HeadOrder] = asyncio.Queue()
        self.reports: asyncio.Queue[pb.HeadReport | None] = asyncio.Queue()
        self.hung_up = asyncio.Event()

    async def Hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloReply:
        return pb.HelloReply(version=PROTOCOL_VERSION, ride=self.ride)

    async def Link(self, request: pb.LinkRequest, context: Any) -> pb.LinkReply:
        if self.refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refusal)
        self.links.append(request)
        return pb.LinkReply()

    async def Serve(self, orders: AsyncIterator[pb.HeadOrder], context: Any) -> AsyncIterator[pb.HeadReport]:
        async def take() -> None:
            async for order in orders:
                self.orders.put_nowait(order)

        reader = asyncio.create_task(take())
        try:
            while (report := await self.reports.get()) is not None:
                yield report
        finally:
            reader.cancel()
            self.hung_up.set()


class Client:
    """A ring client; what it hears can be waited for."""

    def __init__(self, epoch: int = 1) -> None:
        self.heard: asyncio.Queue[tuple[RequestId, Tokens]] = asyncio.Queue()
        self.broke: asyncio.Queue[str] = asyncio.Queue()
        self.ring = RingClient(
            PLAN, epoch, lambda request, tokens: self.heard.put_nowait((request, tokens)), self.broke.put_nowait
        )

    async def reason(self) -> str:
        async with asyncio.timeout(5):
            return await self.broke.get()

    async def tokens(self) -> tuple[RequestId, Tokens]:
        async with asyncio.timeout(5):
            return await self.heard.get()


Serve = Callable[[Shard], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a shard on a free port; gives its address and its server."""
    async with AsyncExitStack() as stack:

        async def start(shard: Shard) -> tuple[str, grpc.aio.Server]:
            server = grpc.aio.server()
            rpc.add_RingServicer_to_server(shard, server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, 0)
            return f"127.0.0.1:{port}", server

        yield start


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.ring.close()


async def order(shard: Shard) -> pb.HeadOrder:
    async with asyncio.timeout(5):
        return await shard.orders.get()


# ---------------------------------------------------------------- linking


async def test_every_shard_is_told_its_place_and_its_next_and_the_tail_s_next_is_the_head(serve: Serve) -> None:
    shards = [Shard(), Shard(), Shard()]
    addresses = tuple([(await serve(shard))[0] for shard in shards])
    client = Client(epoch=4)
    await client.ring.open(addresses)
    for index, shard in enumerate(shards):
        (link,) = shard.links
        assert (link.plan, link.epoch, link.index, link.shards) == (bytes.fromhex(PLAN), 4, index, 3)
        assert link.next_address == addresses[(index + 1) % 3]
    await client.ring.close()


async def test_every_shard_is_told_what_all_of_them_can_and_which_share_a_machine(serve: Serve) -> None:
    shards = [Shard(pb.RIDE_RAGGED), Shard(pb.RIDE_EVEN), Shard(pb.RIDE_RAGGED)]
    addresses = [(await serve(shard))[0] for shard in shards]
    addresses[1] = addresses[1].replace("127.0.0.1", "localhost")
    client = Client()
    await client.ring.open(tuple(addresses))
    for shard in shards:
        assert (shard.links[0].ride, list(shard.links[0].machines)) == (pb.RIDE_EVEN, [0, 1, 0])
    await client.ring.close()


async def test_a_ring_may_be_linked_such_that_requests_take_turns(serve: Serve, client: Client) -> None:
    shard = Shard(pb.RIDE_RAGGED)
    client.ring.batches = False
    await client.ring.open(((await serve(shard))[0],))
    assert shard.links[0].ride == pb.RIDE_ALONE


async def test_a_ring_of_one_has_no_next(serve: Serve, client: Client) -> None:
    shard = Shard()
    await client.ring.open(((await serve(shard))[0],))
    assert shard.links[0].next_address == ""


async def test_a_shard_that_refuses_is_named_and_is_not_silent(serve: Serve, client: Client) -> None:
    willing, unwilling = Shard(), Shard()
    unwilling.refusal = "this shard belongs to another plan"
    addresses = (await serve(willing))[0], (await serve(unwilling))[0]
    with pytest.raises(RingLost, match=f"{addresses[1]} cannot be linked: this shard belongs to another plan"):
        await client.ring.open(addresses)
    assert client.ring.silent is None
    assert client.broke.empty(), "it is raised, not told"


async def test_a_shard_that_does_not_answer_is_named_as_silent_and_no_other_is_linked(
    serve: Serve, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "DIAL_DEADLINE_S", 0.5)
    well = Shard()
    frozen = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)  # takes connections, says nothing
    address = f"127.0.0.1:{frozen.sockets[0].getsockname()[1]}"
    with pytest.raises(RingLost, match=f"{address} did not answer"):
        await client.ring.open(((await serve(well))[0], address))
    assert client.ring.silent == 1
    assert well.links == []
    frozen.close()


async def test_a_ring_that_is_closed_while_it_is_linked_does_not_open(serve: Serve, client: Client) -> None:
    address, _ = await serve(shard := Shard())
    opening = asyncio.create_task(client.ring.open((address,)))
    await client.ring.close()
    with pytest.raises(RingLost, match="closed"):
        await opening
    assert not shard.hung_up.is_set()


# ---------------------------------------------------------------- requests and news


async def test_a_request_reaches_the_head_whole_and_its_news_come_back(serve: Serve, client: Client) -> None:
    shard = Shard()
    await client.ring.open(((await serve(shard))[0],))
    client.ring.submit(RequestId("r"), (1, 2, 3), SPEC)
    submit = (await order(shard)).submit
    assert (submit.request, tuple(submit.prompt), spec_from_wire(submit.spec)) == ("r", (1, 2, 3), SPEC)
    logprob = pb.Logprob(logprob=-0.5, top=[pb.TopLogprob(token=9, logprob=-0.5)])
    shard.reports.put_nowait(
        pb.HeadReport(request="r", tokens=[9], logprobs=[logprob], finish=pb.FINISH_LENGTH, passes=2, prompt_done=3)
    )
    request, tokens = await client.tokens()
    assert request == "r"
    assert (tokens.tokens, tokens.finish, tokens.passes, tokens.prompt_done) == ((9,), "length", 2, 3)
    assert tokens.logprobs == (TokenLogprob(9, -0.5, ((9, -0.5),)),)


async def test_a_cancel_reaches_the_head(serve: Serve, client: Client) -> None:
    shard = Shard()
    await client.ring.open(((await serve(shard))[0],))
    client.ring.cancel(RequestId("r"))
    assert (await order(shard)).cancel.request == "r"


# ---------------------------------------------------------------- breaks


async def test_the_head_s_word_that_the_ring_is_lost_is_told_once(serve: Serve, client: Client) -> None:
    shard = Shard()
    address, server = await serve(shard)
    await client.ring.open((address,))
    shard.reports.put_nowait(pb.HeadReport(finish=pb.FINISH_ERROR, error="no frame came back for 60 s"))
    assert await client.reason() == "no frame came back for 60 s"
    await server.stop(0)
    await client.ring.close()
    assert client.broke.empty()
    with pytest.raises(RingLost):
        client.ring.submit(RequestId("r"), (1,), SPEC)
    client.ring.cancel(RequestId("r"))


async def test_a_head_that_dies_or_hangs_up_is_told(serve: Serve) -> None:
    for dies in (True, False):
        shard, client = Shard(), Client()
        address, server = await serve(shard)
        await client.ring.open((address,))
        if dies:
            await server.stop(0)
        else:
            shard.reports.put_nowait(None)
        assert "head" in await client.reason()
        await client.ring.close()


@pytest.mark.parametrize("ended_by", ["the death", "the head", "us"])
async def test_the_task_that_sends_orders_ends_with_its_stream(serve: Serve, client: Client, ended_by: str) -> None:
    shard = Shard()
    address, server = await serve(shard)
    before = asyncio.all_tasks()
    await client.ring.open((address,))
    client.ring.submit(RequestId("r"), (1,), SPEC)
    await order(shard)
    (sender,) = [each for each in asyncio.all_tasks() - before if "_consume_request" in repr(each.get_coro())]
    if ended_by == "the death":
        await server.stop(0)
    elif ended_by == "the head":
        shard.reports.put_nowait(None)
    else:
        await client.ring.close()
    await asyncio.wait({sender}, timeout=5)
    assert sender.done()


async def test_a_close_of_our_own_is_no_break_and_hangs_up(serve: Serve, client: Client) -> None:
    shard = Shard()
    await client.ring.open(((await serve(shard))[0],))
    client.ring.submit(RequestId("r"), (1,), SPEC)
    await order(shard)
    await client.ring.close()
    async with asyncio.timeout(5):
        await shard.hung_up.wait()
    assert client.broke.empty()


async def test_a_head_that_reads_no_orders_breaks_the_ring_once_and_no_cancel_raises(
    serve: Serve, client: Client
) -> None:
    address, server = await serve(Shard())
    await client.ring.open((address,))
    for _ in range(room.ORDERS_MAX + 1):  # no task runs meanwhile
        client.ring.cancel(RequestId("r"))
    assert await client.reason() == "the head does not read its orders"
    with pytest.raises(RingLost):
        client.ring.submit(RequestId("r"), (1,), SPEC)
    (reader,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("head of")]
    await server.stop(0)
    await asyncio.wait({reader}, timeout=5)
    assert client.broke.empty()
