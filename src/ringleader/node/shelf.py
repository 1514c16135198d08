"""The models that this node knows: found in the store or by path, weighed, and given a voice, each once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ringleader.api.contracts import ModelCard
from ringleader.errors import ModelUnsupported, RingleaderError, UnknownModel
from ringleader.language.prompt import Voice, voice
from ringleader.language.voice_report import voice_report
from ringleader.models.headers import read_costs
from ringleader.models.settings import SETTINGS, read_settings
from ringleader.models.store import Store
from ringleader.node.cards import Card
from ringleader.shard.families import check_family
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import ModelCosts, ModelId

HEARD_MAX = 256  # models that other nodes may want; a cluster serves a few

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class Entry:
    """One model, ready to be talked to. `reference` finds it on other nodes too (a store name or a path)."""

    model: ModelId
    reference: str
    directory: Path
    costs: ModelCosts
    voice: Voice
    borrowed: bool = False  # only other nodes have its weights


class Elsewhere(Protocol):
    """As `node.cards.Cards`."""

    async def fetch(self, model: ModelId) -> Card | None:
        """The card of a model that others run or have; None when nobody does."""
        ...


@dataclass(slots=True)
class Shelf:
    """`served` are references given at the start; the store's models come on top, and those that a master had this
    node hold a shard of. `context` caps requests."""

    store: Store
    served: tuple[str, ...]
    context: int
    loaded: set[ModelId] = field(default_factory=set)
    elsewhere: Elsewhere | None = None  # where to look for what is not here
    since: float = field(default_factory=time.time)
    _entries: dict[ModelId, Entry] = field(default_factory=dict)
    _locks: dict[ModelId, asyncio.Lock] = field(default_factory=dict)
    _learned: dict[ModelId, str] = field(default_factory=dict)
    _heard: set[tuple[ModelId, str]] = field(default_factory=set)
    _borrowing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def learn(self, model: ModelId, reference: str) -> None:
        """A master calls this model so, and its files are here: this node can answer for it, should it lead."""
        self._learned.setdefault(model, reference or model)

    def hear_of(self, model: ModelId, reference: str) -> None:
        """Another node wants this model served; learned if its files are here, too. Looks once, and cheaply."""
        if (model, reference) in self._heard or len(self._heard) >= HEARD_MAX:
            return
        self._heard.add((model, reference))
        with contextlib.suppress(RingleaderError):
            self.store.resolve(reference or model)
            self.learn(model, reference)

    async def entry(self, model: ModelId) -> Entry:
        """The model as requests need it; the first call reads its headers and tokenizer (a second or two).

        Raises UnknownModel, ModelFault, ModelUnsupported.
        """
        known = self._entries.get(model)
        if known is not None and (not known.borrowed or model in self.loaded):
            return known
        try:
            reference = await asyncio.to_thread(self._reference, model)
        except UnknownModel:
            return await self._borrow(model)
        async with self._locks.setdefault(model, asyncio.Lock()):
            if (known := self._entries.get(model)) is None or known.borrowed:
                self._entries[model] = await asyncio.to_thread(self._open, model, reference)
        return self._entries[model]

    async def _borrow(self, model: ModelId) -> Entry:
        """What only other nodes hold. Raises UnknownModel, naming what is here, when they do not either."""
        async with self._borrowing:
            if model not in self._entries:
                card = None if self.elsewhere is None else await self.elsewhere.fetch(model)
                if card is None:
                    raise await asyncio.to_thread(self._unknown, model)
                self._entries[model] = await asyncio.to_thread(self._open_card, model, card)
        return self._entries[model]

    def directories(self) -> list[Path]:
        """All that may hold models that this node can run."""
        found = sorted(self.store.root.iterdir()) if self.store.root.is_dir() else []
        found = [each for each in found if not each.name.startswith(".")]
        for reference in (*self.served, *self._learned.values()):
            with contextlib.suppress(RingleaderError):
                found.append(self.store.resolve(reference))
        return found

    def find(self, model: ModelId) -> tuple[Path, str]:
        """Where a model's files are, and how other nodes may call it. Raises as `entry`."""
        reference = self._reference(model)
        directory = self.store.resolve(reference)
        return directory, _portable(reference, directory)

    def _reference(self, model: ModelId) -> str:
        """Clients may name what the node serves, or what lies in its store; never a path of their own."""
        for reference in self.served:
            if model in (reference, self.store.model_id(reference)):
                return reference
        if model in self._stored():
            return model
        if model in self._learned:
            return self._learned[model]
        raise self._unknown(model)

    def _unknown(self, model: ModelId) -> UnknownModel:
        known = sorted({*self.names()})
        return UnknownModel(
            f"The model {model!r} does not exist here. "
            + (f"Served: {', '.join(known)}." if known else "Fetch one: ringleader models pull smollm2-135m"),
            param="model",
        )

    def _open(self, model: ModelId, reference: str) -> Entry:
        directory = self.store.resolve(reference)
        return self._read(model, _portable(reference, directory), directory, read_costs(directory, model))

    def _open_card(self, model: ModelId, card: Card) -> Entry:
        return replace(self._read(model, card.reference, card.directory, card.costs), borrowed=True)

    def _read(self, model: ModelId, reference: str, directory: Path, costs: ModelCosts) -> Entry:
        check_family(costs.family)
        tokenizer = load_tokenizer(directory)
        _ = tokenizer.grammar_view  # built here, not in the first forced request
        spoken = _voice(directory, tokenizer, min(costs.context_max, self.context))
        report = voice_report(spoken)
        log.log(logging.WARNING if report.doubt else logging.INFO, "%s", report.line(model))
        return Entry(model, reference, directory, costs, spoken)

    def names(self) -> list[ModelId]:
        """Ids of all models that a request may name."""
        served = [self.store.model_id(reference) for reference in self.served]
        borrowed = [entry.model for entry in self._entries.values() if entry.borrowed]
        return list(dict.fromkeys([*served, *self._stored(), *self._learned, *borrowed]))

    def _stored(self) -> list[ModelId]:
        return [ModelId(stored.name) for stored in self.store.list() if stored.state == "ready"]

    def known(self, model: ModelId) -> Entry:
        """An entry that was opened before."""
        return self._entries[model]

    def costs_of(self, model: ModelId) -> ModelCosts | None:
        """Of a model that was opened before; None for any other."""
        entry = self._entries.get(model)
        return None if entry is None else entry.costs

    async def cards(self) -> list[ModelCard]:
        """For `/v1/models`."""
        return await asyncio.to_thread(self._cards)

    def _cards(self) -> list[ModelCard]:
        cards = []
        for model in self.names():
            entry = self._entries.get(model)
            directory = entry.directory if entry else self.store.resolve(self._reference(model))
            created = int((directory / "config.json").stat().st_mtime)
            context = entry.voice.context_max if entry else None
            cards.append(ModelCard(model, created, model in self.loaded, context))
        # What this node took over from another master, and was not asked for yet.
        cards += [ModelCard(model, int(self.since), True) for model in sorted(self.loaded - {c.id for c in cards})]
        return cards


def _portable(reference: str, directory: Path) -> str:
    return str(directory) if Path(reference).expanduser().exists() else reference


def _voice(directory: Path, tokenizer: Tokenizer, context_max: int) -> Voice:
    """As detected, or as the model's settings say."""
    override = read_settings(directory).dialect
    try:
        return voice(tokenizer, context_max, override)
    except ModelUnsupported as error:
        raise ModelUnsupported(f"{directory / SETTINGS}: {error}") from error
