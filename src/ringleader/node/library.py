"""The API's `ModelLibrary` over shelf and store: what the models' files say, and how more come here."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

from ringleader.api.contracts import ModelCard, ModelDetails, ModelFacts, PullStep
from ringleader.errors import ModelFault, RingleaderError
from ringleader.models.headers import read_costs
from ringleader.models.reporter import Unit
from ringleader.models.store import Store, weights_of
from ringleader.node.shelf import Shelf
from ringleader.values import ModelCosts, ModelId

STEPS_MAX = 64  # not told yet; progress that nobody reads in time is left out
_BITS = re.compile(r"(\d+)-bit")
_DTYPE_BITS = {"fp32": 32.0}
SCALE_BITS = 0.5  # a scale and a bias of 16 bits each for 64 packed numbers


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
        loaded = model in self._shelf.loaded
        facts = _described(
            ModelCard(model, created, loaded), entry.costs, await asyncio.to_thread(self._weights, model)
        )
        voice = entry.voice
        return ModelDetails(
            replace(facts, context_max=voice.context_max),
            voice.tokenizer.chat_template or "",
            voice.dialect.thinking is not None,
        )

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
        try:
            directory, _ = self._shelf.find(card.id)
            return _described(card, read_costs(directory, card.id), self._weights(card.id))
        except RingleaderError:
            costs = self._shelf.costs_of(card.id)
            bare = ModelFacts(card.id, card.loaded, card.created, context_max=card.context_max or 0)
            return bare if costs is None else _described(card, costs, "")

    def _weights(self, model: ModelId) -> str:
        try:
            return weights_of(self._shelf.find(model)[0])
        except RingleaderError:
            return ""


def _described(card: ModelCard, costs: ModelCosts, weights: str) -> ModelFacts:
    return ModelFacts(
        id=card.id,
        loaded=card.loaded,
        modified=card.created,
        digest=costs.digest,
        family=costs.family,
        weights=weights,
        size_bytes=costs.weight_bytes,
        parameters=round(costs.weight_bytes * 8 / _bits(weights)),
        layers=costs.layers,
        hidden_size=costs.hidden_size,
        context_max=card.context_max or costs.context_max,
    )


def _bits(weights: str) -> float:
    """About how many bits a parameter takes."""
    if found := _BITS.search(weights):
        return int(found[1]) + SCALE_BITS
    return _DTYPE_BITS.get(weights, 16.0)


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
