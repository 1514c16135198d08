"""The deltas of an answer's choices, each read ahead by one task that also closes them, however the handler ends.

Why tasks: waiting with a timeout on the iterator itself would cancel it, and iterating from several tasks
breaks any task group or timeout inside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from ringleader.errors import OurFault
from ringleader.values import Delta, Finished

log = logging.getLogger(__name__)

# Deltas of all choices read but not yet written: enough to never starve the socket, too few to matter when wasted.
AHEAD_MAX = 4
CLOSE_TIMEOUT_S = 5.0  # a cancel goes round a ring in milliseconds; past this the node is ill and says so itself


class Closers:
    """The closings under way. The app owns it and waits for them when it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, task: asyncio.Task[None]) -> None:
        """Hold `task` until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Until all that are under way are done; each has its own deadline."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))


class DeltaFeed:
    """Use as an async context manager; leaving it closes all deltas at once, even under cancellation."""

    def __init__(self, choices: Sequence[AsyncIterator[Delta]], closers: Closers) -> None:
        self._choices = choices
        self._closers = closers
        self._queue: asyncio.Queue[tuple[int, Delta] | Exception] = asyncio.Queue(AHEAD_MAX)
        self._readers: list[asyncio.Task[None]] = []
        self._leaving = False

    async def __aenter__(self) -> DeltaFeed:
        self._readers = [asyncio.create_task(self._read(n, deltas)) for n, deltas in enumerate(self._choices)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closing = asyncio.create_task(self._shut())
        self._closers.add(closing)
        await asyncio.shield(closing)

    async def next(self, silence_s: float | None = None) -> tuple[int, Delta] | None:
        """The next delta of any choice and the choice's number, or None after `silence_s` seconds without one.

        Raises:
            RingleaderError: whatever any choice's deltas raised; `OurFault` when they ended before `Finished`.
        """
        try:
            item = self._queue.get_nowait()  # a deadline costs more than a delta
        except asyncio.QueueEmpty:
            try:
                async with asyncio.timeout(silence_s):
                    item = await self._queue.get()
            except TimeoutError:
                return None
        if isinstance(item, Exception):
            raise item
        return item

    async def _read(self, choice: int, deltas: AsyncIterator[Delta]) -> None:
        try:
            async for delta in deltas:
                await self._queue.put((choice, delta))
                if isinstance(delta, Finished):
                    return
            await self._queue.put(OurFault("the answer ended without saying why"))
        except Exception as error:  # noqa: BLE001 - a task's root: the error goes to the handler, which raises it
            if not self._leaving:  # or a full queue, which nobody empties any more, would hold this task for ever
                await self._queue.put(error)
        finally:
            await self._close(deltas)

    async def _shut(self) -> None:
        self._leaving = True
        for reader in self._readers:
            reader.cancel()  # it has begun (tasks start in order), so its `finally` closes the deltas
        _, late = await asyncio.wait(self._readers, timeout=2 * CLOSE_TIMEOUT_S)
        if late:
            log.warning("an answer did not stop when it was cancelled; its request may still hold a slot")

    async def _close(self, deltas: AsyncIterator[Delta]) -> None:
        close = getattr(deltas, "aclose", None)
        if close is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await close()
        except TimeoutError:
            log.warning("an answer did not close within %s s; its request may still hold a slot", CLOSE_TIMEOUT_S)
        except Exception:  # a task's end: nobody is left to hear of it but the log
            log.exception("closing an answer failed")
