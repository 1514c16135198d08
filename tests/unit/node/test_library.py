"""What the API can tell of this node's models, and pulls."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ringleader.errors import ModelFault, UnknownModel
from ringleader.models.reporter import Reporter
from ringleader.models.store import Store
from ringleader.node.library import ShelfLibrary
from ringleader.node.shelf import Shelf
from ringleader.values import ModelId
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with
from tests.unit.models.builders import model_directory

TINY = ModelId("tiny")


@pytest.fixture
def library(tmp_path: Path) -> ShelfLibrary:
    save(tokenizer_with((), CHATML), model_directory(tmp_path / "tiny"))
    shelf = Shelf(Store(tmp_path), (), 1000)
    return ShelfLibrary(shelf, shelf.store, shelf.cards)


class Pulling:
    """A store whose pull does as told, in its thread."""

    def __init__(self, fault: Exception | None = None, *, endless: bool = False) -> None:
        self._fault, self._endless = fault, endless
        self.stopped = threading.Event()

    def pull(self, reference: str, reporter: Reporter) -> Path:
        reporter.stage(f"fetch {reference}")
        done = 0
        try:
            while done < 1000 or self._endless:
                done += 1
                reporter.advance(done % 1000, 1000, "bytes")
        except ModelFault:
            self.stopped.set()
            raise
        if self._fault is not None:
            raise self._fault
        reporter.done("all of it")
        return Path(reference)


def pulling(library: ShelfLibrary, store: Any) -> ShelfLibrary:
    return ShelfLibrary(library._shelf, store, library._cards)


async def test_facts_are_read_from_the_files_of_every_model(library: ShelfLibrary) -> None:
    (facts,) = await library.facts()
    assert (facts.id, facts.loaded) == (TINY, False)
    assert facts.size_bytes > 0
    assert facts.parameters > 0
    assert facts.layers > 0
    assert facts.weights
    assert facts.digest


async def test_details_have_the_template_and_the_context_that_is_served(library: ShelfLibrary) -> None:
    details = await library.details(TINY)
    assert details.template == CHATML
    assert details.facts.context_max <= 1000
    assert not details.thinks
    with pytest.raises(UnknownModel):
        await library.details(ModelId("none"))


async def test_a_pull_tells_its_stages_and_ends(library: ShelfLibrary) -> None:
    steps = [step async for step in pulling(library, Pulling()).pull("x")]
    assert steps[0].stage == "fetch x"
    assert any(0 < step.done <= step.total == 1000 for step in steps)
    assert len(steps) < 110


async def test_a_pull_that_fails_raises_why(library: ShelfLibrary) -> None:
    with pytest.raises(ModelFault, match="cut off"):
        async for _ in pulling(library, Pulling(ModelFault("cut off"))).pull("x"):
            pass


async def test_a_pull_that_nobody_listens_to_is_stopped(library: ShelfLibrary) -> None:
    store = Pulling(endless=True)
    steps = pulling(library, store).pull("x")
    await anext(steps)
    await steps.aclose()
    assert await asyncio.to_thread(store.stopped.wait, 10)
