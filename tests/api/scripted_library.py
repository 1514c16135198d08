"""A library of two models, one of them loaded, whose pulls play a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from ringleader.api.contracts import ModelDetails, ModelFacts, PullStep
from ringleader.errors import UnknownModel
from ringleader.values import ModelId
from tests.api.scripted import MODEL

FACTS = (
    ModelFacts(ModelId("org/big"), loaded=False, modified=1700000000),
    ModelFacts(
        MODEL,
        loaded=True,
        modified=1700000001,
        digest="ab" * 16,
        family="llama",
        weights="fp32",
        size_bytes=538060032,
        parameters=134515008,
        layers=30,
        hidden_size=576,
        context_max=8192,
    ),
)
STEPS = (PullStep("look up x"), PullStep("fetch x", 5, 10), PullStep("fetch x", 10, 10))


class ScriptedLibrary:
    """As `ModelLibrary`. `closed` tells that a pull was closed before its end."""

    def __init__(self, steps: Sequence[PullStep | Exception | asyncio.Event] = STEPS, *, thinks: bool = False) -> None:
        self.pulled: list[str] = []
        self.closed = asyncio.Event()
        self._steps = steps
        self._thinks = thinks

    async def facts(self) -> list[ModelFacts]:
        return list(FACTS)

    async def details(self, model: ModelId) -> ModelDetails:
        for facts in FACTS:
            if facts.id == model:
                return ModelDetails(facts, "{{ messages }}", self._thinks)
        raise UnknownModel(f"The model {model!r} does not exist here.")

    async def pull(self, reference: str) -> AsyncGenerator[PullStep, None]:
        self.pulled.append(reference)
        try:
            for step in self._steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    yield step
        finally:
            self.closed.set()
