"""Any node's API: takes a request in, has the master answer it, and sees it through whatever is lost meanwhile.

    master is this node -> its own desk        another node -> by relay
    the ring or the master is lost -> the same request again, with what came of its answer already

What the client has is kept here and nowhere else, so nothing is told it twice and nothing is left out.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator
from typing import Protocol

from ringleader.errors import RingleaderError, RingLost
from ringleader.node.answer import Closable, Opened
from ringleader.node.reading import SoFar
from ringleader.values import Answer, ChatRequest, Delta, ModelId, NodeId

# Losses in a row without a word of the answer between. A ring that is lost for the third time is perhaps lost by this
# very request; a master that cannot be reached says nothing of it, and another is elected within seconds.
LOSSES_MAX = 8
RING_LOST_COUNTS = 3
PAUSE_FIRST_S = 0.2  # then twice as long each time: a ring that was linked anew serves after about a second
PAUSE_MAX_S = 2.0

log = logging.getLogger("ringleader.node")


class Source(Protocol):
    """Where a request can be answered: `node.answer.Desk`, or the relay to another node's."""

    async def open(self, request: ChatRequest, so_far: SoFar) -> Opened:
        """As `Desk.open`."""
        ...

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """As `api.contracts.Answerer.token_bytes`."""
        ...


class Leader(Protocol):
    """Who is master."""

    async def source(self) -> tuple[NodeId, Source]:
        """The master and how to reach its desk; waits while one is being elected. Raises MasterMoved if none is."""
        ...


class Ingress:
    """The API's Answerer."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self.closing = False  # this node stops: what is lost now stays lost
        self._source: Source | None = None  # the last one: it knows the tokens of the answers that are being read

    async def answer(self, request: ChatRequest) -> Answer:
        """Accept `request`, here or on the master. Raises as `Desk.open` does."""
        so_far = SoFar(datetime.date.today())
        opened = await _Losses().until_opened(self, request, so_far)
        deltas = Closable(self._deltas(request, so_far, opened), opened.parts.cancel)
        return Answer(request.model, deltas, opened.warnings, opened.prompt_tokens)

    async def open(self, request: ChatRequest, so_far: SoFar) -> Opened:
        """One try."""
        _, self._source = await self._leader.source()
        return await self._source.open(request, so_far)

    async def _deltas(self, request: ChatRequest, so_far: SoFar, opened: Opened) -> AsyncGenerator[Delta, None]:
        losses = _Losses()
        while True:
            try:
                async for part in opened.parts:
                    so_far.add(part)
                    if part.word is not None and part.word.tokens:
                        losses.forget()
                    for delta in part.deltas:
                        yield delta
                return
            except RingleaderError as error:
                await losses.bear(error, self, request)
                so_far.patient = True
            finally:
                await opened.parts.aclose()
            opened = await losses.until_opened(self, request, so_far)

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """The bytes of one token, for logprobs."""
        assert self._source is not None, "logprobs are read of an answer, which has a source"
        return self._source.token_bytes(model, token)


class _Losses:
    """Counts what one request has lost in a row, and waits a little longer after each."""

    def __init__(self) -> None:
        self.count = self._pauses = 0

    def forget(self) -> None:
        """The answer goes on: what was lost before was not lost for a reason that lasts."""
        self.count = self._pauses = 0

    async def until_opened(self, ingress: Ingress, request: ChatRequest, so_far: SoFar) -> Opened:
        while True:
            try:
                return await ingress.open(request, so_far)
            except RingleaderError as error:
                await self.bear(error, ingress, request)
                so_far.patient = True

    async def bear(self, error: RingleaderError, ingress: Ingress, request: ChatRequest) -> None:
        """Wait before the next try. Raises `error` when there is to be none."""
        self.count += RING_LOST_COUNTS if isinstance(error, RingLost) else 1
        self._pauses += 1
        if ingress.closing:
            raise RingLost("this node was told to stop: send the request to another") from error
        if not error.resumable:
            raise error
        if self.count > LOSSES_MAX:
            raise _given_up(error) from error
        pause_s = min(PAUSE_FIRST_S * 2 ** (self._pauses - 1), PAUSE_MAX_S)
        log.info("an answer of %s is interrupted (%s): goes on in %.1f s", request.model, error, pause_s)
        await asyncio.sleep(pause_s)


def _given_up(error: RingleaderError) -> RingleaderError:
    """What was resumed so far, and is the client's own to try again: only now is that true."""
    return type(error)(f"{str(error).rstrip('. ')}. Send the request again.")
