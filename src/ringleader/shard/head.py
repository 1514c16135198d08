"""The head's side of the ring: takes the master's requests, sends turns round, reports tokens.

One task drives; it sleeps until something came (a request, a returned frame, a cancel). Liveness is judged
by progress: frames in the ring of which none returns within `progress_deadline_s` mean that the ring is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ringleader.shard.batcher import PROGRESS_DEADLINE_S, Batcher, Limits, Turn
from ringleader.shard.engine import Activation
from ringleader.shard.frames import picked_of
from ringleader.shard.sampler import Picked
from ringleader.v1 import ring_pb2 as pb
from ringleader.wire import FINISH_TO_WIRE, logprob_to_wire, spec_from_wire

Compute = Callable[[Turn | None, tuple[int, ...]], Awaitable["Activation | Picked | None"]]
Send = Callable[[Turn | None, tuple[int, ...], "Activation | None"], Awaitable[None]]


class Head:
    """Drives one ring for one epoch. `compute` runs this shard's part; `send` is None in a ring of one."""

    def __init__(
        self,
        limits: Limits,
        compute: Compute,
        send: Send | None,
        frame_bytes: Callable[[], int],
        progress_deadline_s: float = PROGRESS_DEADLINE_S,
    ) -> None:
        self._batcher = Batcher(limits)
        self._compute = compute
        self._send = send
        self._frame_bytes = frame_bytes
        self._progress_deadline_s = progress_deadline_s
        self._wake = asyncio.Event()
        self._reports: asyncio.Queue[pb.HeadReport] | None = None
        self._returns = 0
        self._lost = ""

    def serve(self, reports: asyncio.Queue[pb.HeadReport]) -> None:
        """A master connected: reports go to this queue from now on; what ran for another one ends."""
        self._batcher.cancel_all()
        self._reports = reports
        self._wake.set()
        if self._lost:
            self._tell_lost()

    def hang_up(self, reports: asyncio.Queue[pb.HeadReport]) -> None:
        """The master's stream ended: nobody waits for its requests any more."""
        if self._reports is reports:
            self._reports = None
            self._batcher.cancel_all()
            self._wake.set()

    def order(self, order: pb.HeadOrder) -> None:
        """Carry out one order of the master."""
        if order.HasField("submit"):
            submit = order.submit
            if not self._batcher.submit(submit.request, tuple(submit.prompt), spec_from_wire(submit.spec)):
                self._report(
                    pb.HeadReport(request=submit.request, finish=pb.FINISH_ERROR, error="the head's queue is full")
                )
        elif order.HasField("cancel"):
            self._batcher.cancel(order.cancel.request)
        self._wake.set()

    def lost(self, reason: str) -> None:
        """A link broke or a frame was refused: tell the master; nothing more is sent."""
        if not self._lost:
            self._lost = reason
            self._tell_lost()
            self._wake.set()

    def _tell_lost(self) -> None:
        self._report(pb.HeadReport(finish=pb.FINISH_ERROR, error=self._lost))

    def _report(self, report: pb.HeadReport) -> None:
        if self._reports is None:
            return
        try:
            self._reports.put_nowait(report)
        except asyncio.QueueFull:  # the master has not read for tens of thousands of tokens: it is gone
            self.hang_up(self._reports)

    def returned(self, sampled: pb.Sampled) -> None:
        """The oldest frame in the ring came back from the tail."""
        self._took(sampled.slot, picked_of(sampled))

    def _took(self, slot: int, picked: Picked) -> None:
        self._returns += 1
        try:
            progress = self._batcher.returned(slot, picked.tokens, picked.finish)
        except ValueError as error:
            self.lost(str(error))
            return
        self._wake.set()
        if progress is not None:
            self._report(
                pb.HeadReport(
                    request=progress.request,
                    tokens=picked.tokens,
                    logprobs=[logprob_to_wire(each) for each in picked.logprobs],
                    finish=FINISH_TO_WIRE[picked.finish],
                    error=picked.error,
                    passes=progress.passes,
                    prompt_done=progress.prompt_done,
                    frame_bytes=self._frame_bytes(),
                )
            )

    async def drive(self) -> None:
        """Send turns until cancelled."""
        while True:
            self._wake.clear()
            while not self._lost and (turn := self._batcher.next_turn()) is not None:
                await self._go(turn)
            if not self._lost and (released := self._batcher.take_released()):
                await self._compute(None, released)
                if self._send is not None:
                    await self._send(None, released, None)
            await self._sleep()

    async def _go(self, turn: Turn) -> None:
        released = self._batcher.take_released()
        result = await self._compute(turn, released)
        if isinstance(result, Picked):
            self._took(turn.slot, result)
        elif isinstance(result, Activation) and self._send is not None:
            await self._send(turn, released, result)

    async def _sleep(self) -> None:
        """Until something comes; with frames in the ring, not for ever."""
        before = self._returns
        waiting = self._batcher.in_flight > 0 and not self._lost
        try:
            async with asyncio.timeout(self._progress_deadline_s if waiting else None):
                await self._wake.wait()
        except TimeoutError:
            if self._returns == before:
                self.lost(f"no frame came back for {self._progress_deadline_s:g} s")
