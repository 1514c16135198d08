"""Who is master, as this node's ingress needs to know it: where requests go, and what becomes of those under way."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from ringleader.cluster.words import Term
from ringleader.errors import MasterMoved
from ringleader.net.relay import RelayCall, Relays
from ringleader.node.ingress import Source
from ringleader.node.relay import RelaySource
from ringleader.values import Json, ModelId, NodeId

ELECTION_DEADLINE_S = 10.0  # a master is found within three seconds where one can be found


class Mastership:
    """The ingress' Leader."""

    def __init__(self, me: NodeId, desk: Source, relays: Relays) -> None:
        self._me = me
        self._desk = desk
        self._relays = relays
        self._master: NodeId | None = None
        self._known = asyncio.Event()
        self._calls: set[RelayCall] = set()
        self._spellings: dict[tuple[ModelId, int], bytes] = {}

    @property
    def master(self) -> NodeId | None:
        """The node that is followed now."""
        return self._master

    def follow(self, term: Term | None) -> None:
        """The cluster follows this master from now on, or looks for one."""
        master = None if term is None else term.node
        if master != self._master:
            for call in self._calls:
                call.drop("the master is not heard any more" if master is None else "another node is master now")
            self._calls.clear()
        self._master = master
        if master is None:
            self._known.clear()
        else:
            self._known.set()

    async def source(self) -> tuple[NodeId, Source]:
        """The master and how to reach its desk; waits while one is being elected. Raises MasterMoved if none is."""
        try:
            async with asyncio.timeout(ELECTION_DEADLINE_S):
                while (master := self._master) is None:  # it may be lost again before this task runs
                    await self._known.wait()
        except TimeoutError as error:
            raise MasterMoved(
                f"this node has found no master for {ELECTION_DEADLINE_S:.0f} s: see ringleader status"
            ) from error
        if master == self._me:
            return self._me, self._desk
        return master, RelaySource(partial(self._call, master), self._spellings)

    def _call(self, master: NodeId, asked: bytes) -> RelayCall:
        call = self._relays.call(master, asked)
        self._calls = {each for each in self._calls if not each.done} | {call}
        if master != self._master:
            call.drop("another node is master now")
        return call

    async def ask(self, question: str) -> Json | None:
        """The master's answer to a question of `node.view`; None where this node is master, or nobody answers."""
        if self._master is None or self._master == self._me:
            return None
        answer = await self._relays.ask(self._master, json.dumps(question).encode())
        try:
            return None if answer is None else json.loads(answer)
        except ValueError:  # of another version
            return None
