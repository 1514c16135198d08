"""Requests go to whoever leads; what is under way with another is given back at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ringleader.cluster.words import Term
from ringleader.errors import MasterMoved
from ringleader.node import mastership as room
from ringleader.node.mastership import Mastership
from ringleader.node.relay import RelaySource
from ringleader.values import NodeId

ME, A, B = NodeId("me"), NodeId("a"), NodeId("b")
DESK: Any = object()  # only handed through


class Call:
    """One call to a master, until it is dropped."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.dropped = ""
        self.done = False

    def drop(self, reason: str) -> None:
        assert not self.dropped, "once is enough"
        self.dropped = reason


class Relays:
    """The ways to the others: `calls` are all that were made; `says` is what the master answers to questions."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.says: bytes | None = None
        self.asked: list[tuple[NodeId, bytes]] = []

    def call(self, node: NodeId, asked: bytes) -> Call:
        self.calls.append(Call(node))
        return self.calls[-1]

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        self.asked.append((node, question))
        return self.says


class Scene:
    def __init__(self) -> None:
        self.relays = Relays()
        self.mastership = Mastership(ME, DESK, self.relays)  # type: ignore[arg-type]  # a fake
        self.follow = self.mastership.follow

    async def call(self) -> Call:
        """A call to the master of now."""
        source = await self.relay()
        return source.call(b"")  # type: ignore[return-value]  # of the fake

    async def relay(self) -> RelaySource:
        _, source = await self.mastership.source()
        assert isinstance(source, RelaySource)
        return source


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_master_answers_at_its_own_desk_and_any_other_node_by_relay(scene: Scene) -> None:
    scene.follow(Term(1, ME))
    assert await scene.mastership.source() == (ME, DESK)
    scene.follow(Term(2, A))
    assert (await scene.mastership.source())[0] == A
    assert (await scene.call()).node == A


async def test_a_request_waits_for_the_election_to_end(scene: Scene) -> None:
    waiting = asyncio.create_task(scene.mastership.source())
    await asyncio.sleep(0)
    assert not waiting.done()
    scene.follow(Term(1, A))
    assert (await waiting)[0] == A


async def test_a_master_that_is_lost_before_a_waiting_request_wakes_is_waited_for_anew(scene: Scene) -> None:
    waiting = asyncio.create_task(scene.mastership.source())
    await asyncio.sleep(0)
    scene.follow(Term(1, A))
    scene.follow(None)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    scene.follow(Term(2, B))
    assert (await waiting)[0] == B


async def test_an_election_without_end_is_told_to_the_client(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ELECTION_DEADLINE_S", 0.05)
    with pytest.raises(MasterMoved, match="no master for"):
        await scene.mastership.source()


async def test_calls_to_a_master_end_when_another_is_followed_or_none(scene: Scene) -> None:
    scene.follow(Term(1, A))
    first = await scene.call()
    scene.follow(Term(2, A))
    assert not first.dropped, "the same node leads: it tells itself what becomes of its requests"
    scene.follow(Term(3, B))
    assert "another node is master now" in first.dropped
    second = await scene.call()
    scene.follow(None)
    assert "not heard" in second.dropped
    assert scene.mastership.master is None


async def test_a_call_that_comes_too_late_to_its_master_is_dropped_at_once(scene: Scene) -> None:
    scene.follow(Term(1, A))
    old = await scene.relay()
    scene.follow(Term(2, B))
    call: Any = old.call(b"")
    assert (call.node, bool(call.dropped)) == (A, True)


async def test_calls_that_have_ended_are_forgotten(scene: Scene) -> None:
    scene.follow(Term(1, A))
    for _ in range(20):
        (await scene.call()).done = True
    await scene.call()
    assert len(scene.mastership._calls) == 1


async def test_questions_go_to_the_master_and_to_nobody_where_there_is_none_or_it_is_here(scene: Scene) -> None:
    assert await scene.mastership.ask("cluster") is None
    scene.follow(Term(1, ME))
    assert await scene.mastership.ask("cluster") is None
    assert scene.relays.asked == []
    scene.follow(Term(2, A))
    scene.relays.says = b'{"name": "a"}'
    assert await scene.mastership.ask("cluster") == {"name": "a"}
    assert [(node, json.loads(asked)) for node, asked in scene.relays.asked] == [(A, "cluster")]


@pytest.mark.parametrize("says", [None, b"", b"\xff no JSON"])
async def test_no_answer_and_an_answer_that_cannot_be_read_are_none(scene: Scene, says: bytes | None) -> None:
    scene.follow(Term(1, A))
    scene.relays.says = says
    assert await scene.mastership.ask("cluster") is None
