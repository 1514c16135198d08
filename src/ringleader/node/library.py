"""The API's `ModelLibrary` over shelf and store: what the models' files say, and how more come here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

from ringleader.api.contracts import ModelCard, ModelDetails, ModelFacts, PullStep
from ringleader.errors import ModelFault, RingleaderError
from ringleader.models.headers import read_costs
from ringleader.models.reporter import Unit
from ringleader.models.store import Store
from ringleader.models.weighed import weigh
from ringleader.node.shelf import Shelf
from ringleader.values import ModelCosts, ModelId

STEPS_MAX = 64  # not told yet; progress that nobody reads in time is left out


class ShelfLibrary:
    """As `api.contracts.ModelLibrary`. `cards` gives the models that the cluster can serve."""

    def __init__(self, shelf: Shelf, store: Store, cards: Callable[[], Awaitable[list[ModelCard]]]) -> None:
        self._shelf = shelf
        self._store = store
        self._cards = cards

    async def facts(self) -> list[ModelFacts]:
        """From headers alone: no model is opened for it."""
        return [await asyncio.to_thread(self._facts, card) for card in await self._cards()]

    async def details(self, model: ModelId) -> ModelDetails:
        """Opens the model as a request for it would."""
        entry = await self._shelf.entry(model)
        created = int((entry.directory / "config.json").stat().st_mtime)
        card = ModelCard(model, created, model in self._shelf.loaded, entry.voice.context_max)
        facts = await asyncio.to_thread(self._facts, card)
        thinking = entry.voice.dialect.thinking
        thinks = thinking is not None and thinking.expected
        return ModelDetails(facts, entry.voice.tokenizer.chat_template or "", thinks)

    async def pull(self, reference: str) -> AsyncGenerator[PullStep, None]:
        """In a thread, which is told to stop when nobody listens any more."""
        steps = _Steps(asyncio.get_running_loop())
        work = asyncio.create_task(asyncio.to_thread(self._store.pull, reference, steps))
        work.add_done_callback(lambda _: steps.end())
        try:
            while (step := await steps.queue.get()) is not None:
                yield step
            await work
        finally:
            steps.stopped.set()
            if not work.done():
                work.add_done_callback(_forget)

    def _facts(self, card: ModelCard) -> ModelFacts:
        """As far as they are known here: the weights may be another node's."""
        bare = ModelFacts(card.id, card.loaded, card.created, context_max=card.context_max or 0)
        try:
            directory, _ = self._shelf.find(card.id)
            weighed, costs = weigh(directory), read_costs(directory, card.id)
        except RingleaderError:
            borrowed = self._shelf.costs_of(card.id)
            return bare if borrowed is None else _with_costs(bare, borrowed)
        return replace(
            _with_costs(bare, costs),
            weights=weighed.kind,
            parameters=weighed.parameters,
            size_bytes=weighed.size_bytes,
        )


def _with_costs(facts: ModelFacts, costs: ModelCosts) -> ModelFacts:
    return replace(
        facts,
        digest=costs.digest,
        family=costs.family,
        layers=costs.layers,
        hidden_size=costs.hidden_size,
        size_bytes=costs.weight_bytes,
        context_max=facts.context_max or costs.context_max,
    )


def _forget(task: asyncio.Task[object]) -> None:
    """A pull that nobody waits for any more: what became of it is in the store."""
    if not task.cancelled():
        task.exception()


class _Steps:
    """A `models.Reporter` in the thread that pulls; its steps are read by the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[PullStep | None] = asyncio.Queue()
        self.stopped = threading.Event()
        self._loop = loop
        self._stage = ""
        self._told = -1

    def stage(self, name: str) -> None:
        """See Reporter."""
        self._stage, self._told = name, -1
        self._tell(PullStep(name))

    def advance(self, done: int, total: int, unit: Unit) -> None:
        """At most a hundred steps a stage."""
        if self.stopped.is_set():
            raise ModelFault("the client that asked for this pull has left; pull again to go on with it")
        percent = done * 100 // total if total else 0
        if percent != self._told:
            self._told = percent
            self._tell(PullStep(self._stage, done, total))

    def done(self, note: str) -> None:
        """See Reporter."""
        self._tell(PullStep(f"{self._stage}: {note}"))

    def end(self) -> None:
        """Nothing follows."""
        self.queue.put_nowait(None)

    def _tell(self, step: PullStep) -> None:
        self._loop.call_soon_threadsafe(self._put, step)

    def _put(self, step: PullStep) -> None:
        if self.queue.qsize() < STEPS_MAX:
            self.queue.put_nowait(step)
