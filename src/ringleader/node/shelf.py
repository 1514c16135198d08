"""The models that this node knows: found in the store or by path, weighed, and given a voice, each once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from ringleader.api.contracts import ModelCard
from ringleader.errors import ModelUnsupported, RingleaderError, UnknownModel
from ringleader.language.prompt import Voice, voice
from ringleader.language.voice_report import voice_report
from ringleader.models.headers import read_costs
from ringleader.models.settings import SETTINGS, read_settings
from ringleader.models.store import Store
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


@dataclass(slots=True)
class Shelf:
    """`served` are references given at the start; the store's models come on top, and those that a master had this
    node hold a shard of. `context` caps requests."""

    store: Store
    served: tuple[str, ...]
    context: int
    loaded: set[ModelId] = field(default_factory=set)
    _entries: dict[ModelId, Entry] = field(default_factory=dict)
    _locks: dict[ModelId, asyncio.Lock] = field(default_factory=dict)
    _learned: dict[ModelId, str] = field(default_factory=dict)
    _heard: set[tuple[ModelId, str]] = field(default_factory=set)

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
        if (known := self._entries.get(model)) is not None:
            return known
        reference = await asyncio.to_thread(self._reference, model)
        async with self._locks.setdefault(model, asyncio.Lock()):
            if model not in self._entries:
                self._entries[model] = await asyncio.to_thread(self._open, model, reference)
        return self._entries[model]

    def _reference(self, model: ModelId) -> str:
        """Clients may name what the node serves, or what lies in its store; never a path of their own."""
        for reference in self.served:
            if model in (reference, self.store.model_id(reference)):
                return reference
        if model in self._stored():
            return model
        if model in self._learned:
            return self._learned[model]
        known = sorted({*self.names()})
        raise UnknownModel(
            f"The model {model!r} does not exist here. "
            + (f"Served: {', '.join(known)}." if known else "Fetch one: ringleader models pull smollm2-135m"),
            param="model",
        )

    def _open(self, model: ModelId, reference: str) -> Entry:
        directory = self.store.resolve(reference)
        costs = read_costs(directory, model)
        check_family(costs.family)
        tokenizer = load_tokenizer(directory)
        _ = tokenizer.grammar_view  # built here, not in the first forced request
        portable = str(directory) if Path(reference).expanduser().exists() else reference
        spoken = _voice(directory, tokenizer, min(costs.context_max, self.context))
        report = voice_report(spoken)
        log.log(logging.WARNING if report.doubt else logging.INFO, "%s", report.line(model))
        return Entry(model, portable, directory, costs, spoken)

    def names(self) -> list[ModelId]:
        """Ids of all models that a request may name."""
        served = [self.store.model_id(reference) for reference in self.served]
        return list(dict.fromkeys([*served, *self._stored(), *self._learned]))

    def _stored(self) -> list[ModelId]:
        return [ModelId(stored.name) for stored in self.store.list() if stored.state == "ready"]

    def known(self, model: ModelId) -> Entry:
        """An entry that was opened before."""
        return self._entries[model]

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
        return cards


def _voice(directory: Path, tokenizer: Tokenizer, context_max: int) -> Voice:
    """As detected, or as the model's settings say."""
    override = read_settings(directory).dialect
    try:
        return voice(tokenizer, context_max, override)
    except ModelUnsupported as error:
        raise ModelUnsupported(f"{directory / SETTINGS}: {error}") from error
