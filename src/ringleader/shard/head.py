"""The head's side of the ring: takes the master's requests, sends passes round, reports tokens.

One task drives; it sleeps until something came (a request, a returned frame, a cancel). Liveness is judged
by progress: frames in the ring of which none returns within `progress_deadline_s` mean that the ring is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from ringleader.errors import Busy, ContextTooLong
from ringleader.shard.batcher import PROGRESS_DEADLINE_S, Batcher, Limits, Returned, Segments
from ringleader.shard.drafting import Drafting, Step
from ringleader.shard.engine import Computed
from ringleader.shard.frames import missed_by, picked_of, stage_seconds
from ringleader.shard.prefixes import Orders
from ringleader.shard.sampler import Picked
from ringleader.shard.waiting import Progress
from ringleader.v1 import ring_pb2 as pb
from ringleader.wire import FINISH_TO_WIRE, logprob_to_wire, spec_from_wire

Compute = Callable[[Segments | None, Orders], Awaitable[Computed]]
Send = Callable[[Segments | None, Orders, Computed], Awaitable[None]]
Draft = Callable[[Step], Awaitable[tuple[int | None, float]]]

log = logging.getLogger("ringleader.shard")


class Head:
    """Drives one ring for one epoch. `compute` runs this shard's part; `send` is None in a ring of one. `draft` carries
    out one step of a draft model, for which `ends` are the ends of an answer."""

    def __init__(
        self,
        limits: Limits,
        compute: Compute,
        send: Send | None,
        frame_bytes: Callable[[], int],
        progress_deadline_s: float = PROGRESS_DEADLINE_S,
        draft: Draft | None = None,
        ends: frozenset[int] = frozenset(),
    ) -> None:
        self._drafting = Drafting(None if draft is None else ends)
        self._batcher = Batcher(limits, self._drafting)
        self._draft = draft
        self._changed = asyncio.Event()  # something may be drafted
        self._at_rest = asyncio.Event()  # this shard computes no frame
        self._at_rest.set()
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
            self._submit(order.submit)
        elif order.HasField("cancel"):
            self._batcher.cancel(order.cancel.request)
        self._wake.set()

    def _submit(self, submit: pb.Submit) -> None:
        spec = spec_from_wire(submit.spec)
        fault, error = pb.FAULT_OURS, ""
        try:
            if not self._batcher.submit(submit.request, tuple(submit.prompt), spec, submit.priority):
                error = "it has no prompt, or its name is taken"
        except Busy as full:
            fault, error = pb.FAULT_BUSY, str(full)
        except ContextTooLong as too_long:
            fault, error = pb.FAULT_TOO_LONG, str(too_long)
        if error:
            self._report(pb.HeadReport(request=submit.request, finish=pb.FINISH_ERROR, error=error, fault=fault))

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

    def returned(self, frame: pb.Frame) -> None:
        """The oldest frame in the ring came back from the tail."""
        picked = {each.slot: picked_of(each) for each in frame.sampled}
        self._took(picked, stage_seconds(frame), missed_by(frame))

    def _took(self, picked: dict[int, Picked], stage_s: tuple[float, ...], missed: Collection[int] = ()) -> None:
        self._returns += 1
        rows = [Returned(slot, each.tokens, each.finish, each.drafts, slot in missed) for slot, each in picked.items()]
        try:
            progress = self._batcher.returned(rows, stage_s)
        except ValueError as error:
            self.lost(str(error))
            return
        self._wake.set()
        self._changed.set()
        for news, each in zip(progress, picked.values(), strict=True):
            if news is not None:
                self._report(self._news(news, each))

    def _news(self, progress: Progress, picked: Picked) -> pb.HeadReport:
        return pb.HeadReport(
            request=progress.request,
            tokens=picked.tokens,
            logprobs=[logprob_to_wire(each) for each in picked.logprobs],
            finish=FINISH_TO_WIRE[picked.finish],
            error=picked.error,
            passes=progress.passes,
            prompt_done=progress.prompt_done,
            frame_bytes=self._frame_bytes(),
            drawn=picked.drawn,
            drafted=progress.drafted,
            accepted=progress.accepted,
            cached=progress.cached,
            kept_tokens=self._batcher.kept_tokens,
            shard_us=[round(seconds * 1e6) for seconds in progress.shard_s],
        )

    async def drive(self) -> None:
        """Send passes, and make drafts meanwhile, until cancelled."""
        if self._draft is None:
            await self._drive_passes()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._drive_drafts(self._draft), name="drafts")
            await self._drive_passes()

    async def _drive_drafts(self, draft: Draft) -> None:
        """One step after the other, none of which begins while this shard has a frame to compute. Were it the only
        shard of its ring, it would always have one: then they are computed side by side."""
        try:
            while True:
                self._changed.clear()
                await self._at_rest.wait()
                if (step := self._drafting.next_step()) is None:
                    await self._changed.wait()
                else:
                    self._drafting.stepped(step, *await draft(step))
        except Exception:  # the task's root: the ring does without drafts
            log.exception("there are no drafts of a model any more: a step of it failed")
            self._drafting.stop()

    async def _drive_passes(self) -> None:
        while True:
            self._wake.clear()
            while not self._lost and (sent := self._batcher.next_pass()) is not None:
                await self._go(sent)
            if not self._lost and (orders := self._batcher.take_orders()):
                computed = await self._compute(None, orders)
                self._changed.set()  # slots were given up
                if self._send is not None:
                    await self._send(None, orders, computed)
            await self._sleep()

    async def _go(self, sent: Segments) -> None:
        orders = self._batcher.take_orders()
        if self._send is not None:
            self._at_rest.clear()
        computed = await self._compute(sent, orders)
        self._at_rest.set()
        self._changed.set()
        if isinstance(computed.out, tuple):
            picked = zip(sent.turns, computed.out, strict=True)
            self._took({turn.slot: each for turn, each in picked}, (computed.seconds,))
        elif self._send is not None:
            await self._send(sent, orders, computed)
        elif computed.missed:
            slots = [turn.slot for turn in sent.turns]
            self._took(dict.fromkeys(slots, Picked()), (computed.seconds,), slots)

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
