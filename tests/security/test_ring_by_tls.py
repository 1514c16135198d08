"""The data plane: real shards of two nodes in one ring by mutual TLS, and who is kept out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ringleader.cluster.messages import Event, ShardBecameReady, ShardDied
from ringleader.errors import RingLost
from ringleader.net import ring
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.supervisor import SHARD_PROGRAM, ShardStart, Supervisor
from ringleader.trust.cluster import forget
from ringleader.trust.credentials import Credentials
from ringleader.trust.revocations import accept
from ringleader.values import LayerRange, PlanHash, RequestId
from tests.ring.real_ring import greedy
from tests.ring.tiny_models import make_tiny_model
from tests.security.clusters import Cluster, make_cluster
from tests.security.ports import greet

pytestmark = pytest.mark.ring
PLAN = PlanHash("0f" * 16)
LAYERS = 4
START_DEADLINE_S, ANSWER_DEADLINE_S = 90.0, 60.0
PROMPT = (5, 6, 7, 8)


class Client:
    """A ring client that keeps what it hears."""

    def __init__(self, epoch: int, credentials: Credentials | None, nodes: tuple[Credentials, ...]) -> None:
        self.tokens: list[int] = []
        self.ended = asyncio.Event()
        self.broke: list[str] = []
        self.ring = RingClient(
            PLAN, epoch, self._on_tokens, self.broke.append, credentials, tuple(each.node for each in nodes)
        )

    def _on_tokens(self, _: RequestId, news: Tokens) -> None:
        assert news.finish != "error", news.error
        self.tokens += news.tokens
        if news.finish:
            self.ended.set()

    async def answer(self) -> list[int]:
        self.ring.submit(RequestId("r"), PROMPT, greedy(PROMPT, 6))
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            await self.ended.wait()
        return self.tokens


class Shards:
    """One shard on each of two nodes, the second node's after the first's."""

    def __init__(self, cluster: Cluster, model: Path) -> None:
        self.cluster, self.model = cluster, model
        self.head, self.tail = cluster.member("head"), cluster.member("tail")
        self.addresses: tuple[str, ...] = ()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._supervisors: list[Supervisor] = []

    async def start(self) -> None:
        for index, node in enumerate((self.head, self.tail)):
            program = (*SHARD_PROGRAM, "--credentials", str(node.directory))
            supervisor = Supervisor(f"n{index}", self._events.put_nowait, program)
            self._supervisors.append(supervisor)
            half = LAYERS // 2
            layers = LayerRange(index * half, (index + 1) * half)
            supervisor.start(ShardStart(PLAN, index, self.model, layers, LAYERS, "127.0.0.1", 4096))
        found: dict[int, str] = {}
        async with asyncio.timeout(START_DEADLINE_S):
            while len(found) < 2:
                event = await self._events.get()
                assert not isinstance(event, ShardDied), event
                if isinstance(event, ShardBecameReady):
                    found[event.index] = event.address
        self.addresses = (found[0], found[1])

    async def stop(self) -> None:
        for supervisor in self._supervisors:
            await supervisor.stop_all()


@pytest.fixture
async def shards(tmp_path: Path) -> AsyncIterator[Shards]:
    model = make_tiny_model("qwen3", tmp_path / "model", tokenizer=True, num_hidden_layers=LAYERS)
    made = Shards(make_cluster(tmp_path), model)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def test_two_nodes_shards_answer_by_tls_and_only_to_their_cluster(
    shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = shards.cluster.founder
    client = Client(1, master, (shards.head, shards.tail))
    await client.ring.open(shards.addresses)
    assert len(await client.answer()) >= 1

    monkeypatch.setattr(ring, "DIAL_DEADLINE_S", 2.0)  # how long a wrong door is knocked at
    for stranger in (None, make_cluster(tmp_path / "other").founder):
        for address in shards.addresses:
            assert (await greet(address, stranger)).startswith("UNAVAILABLE")
        intruder = Client(9, stranger, ())
        with pytest.raises(RingLost):
            await intruder.ring.open(shards.addresses)
        await intruder.ring.close()
    assert not client.broke, "nobody has noticed"

    swapped = Client(2, master, (shards.tail, shards.head))
    with pytest.raises(RingLost):
        await swapped.ring.open(shards.addresses)
    await swapped.ring.close()
    await client.ring.close()


async def test_a_shard_that_knows_of_a_revocation_neither_hears_nor_dials_that_node(shards: Shards) -> None:
    _, listed = forget(shards.cluster.founder.directory, "tail")
    accept(shards.head, bytes(listed))
    assert "it was revoked" in await greet(shards.addresses[0], shards.tail)
    client = Client(1, shards.cluster.founder, ())  # a master that would still dial it
    client.ring.nodes = (shards.head.node, shards.tail.node)
    with pytest.raises(RingLost, match="was revoked"):
        await client.ring.open(shards.addresses)
    ignorant = shards.cluster.member("ignorant")
    other = Client(2, ignorant, (shards.head, shards.tail))
    with pytest.raises(RingLost, match=r"the next shard at .* was revoked"):
        await other.ring.open(shards.addresses)
    for each in (client, other):
        await each.ring.close()
