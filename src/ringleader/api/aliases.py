"""Other names for models: clients that ask for "claude-*" or "gpt-*" get what the node's owner put in their place.

Applied once, before everything that an API asks of a node: answers tell the model's real name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ringleader.api.contracts import (
    Answerer,
    ModelCard,
    ModelDetails,
    ModelFacts,
    ModelLibrary,
    ModelShelf,
    PullStep,
    Tokenizing,
)
from ringleader.errors import BadRequest
from ringleader.values import Answer, ChatRequest, ModelId

WILD = "*?["


class Aliases:
    """Pairs of a pattern (as of file names: `*`, `?`, `[a-z]`) and a model's name. The first that matches counts."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)

    def real(self, model: ModelId) -> ModelId:
        """What `model` stands for; itself where no pattern matches."""
        return ModelId(next((name for pattern, name in self._pairs if fnmatchcase(model, pattern)), model))

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """Those that are one name each, which a list of models can show."""
        return tuple(pair for pair in self._pairs if not any(char in pair[0] for char in WILD))


def parse_aliases(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`claude-*=qwen3-30b` each. Raises BadRequest naming the one that is wrong."""
    pairs = []
    for text in texts:
        pattern, equals, name = text.partition("=")
        if not (equals and pattern.strip() and name.strip()):
            raise BadRequest(
                f"--alias {text[:80]!r} is not PATTERN=MODEL, as in 'claude-*=smollm2-135m'", param="alias"
            )
        pairs.append((pattern.strip(), name.strip()))
    return tuple(pairs)


class AliasedAnswerer:
    """An Answerer that is asked by any name."""

    def __init__(self, inner: Answerer, aliases: Aliases) -> None:
        self._inner = inner
        self._aliases = aliases

    async def answer(self, request: ChatRequest) -> Answer:
        """As the inner one, by the real name."""
        return await self._inner.answer(replace(request, model=self._aliases.real(request.model)))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """Of an answer's model, which is a real one."""
        return self._inner.token_bytes(model, token)


class AliasedShelf:
    """A ModelShelf with the aliases that are one name each, beside the models that they stand for."""

    def __init__(self, inner: ModelShelf, aliases: Aliases) -> None:
        self._inner = inner
        self._aliases = aliases

    async def cards(self) -> list[ModelCard]:
        """The models, and the aliases of those that are there."""
        cards = await self._inner.cards()
        known = {card.id: card for card in cards}
        made = [
            (ModelId(alias), known.get(ModelId(name))) for alias, name in self._aliases.listed if alias not in known
        ]
        return [*cards, *(replace(card, id=alias) for alias, card in made if card is not None)]


class AliasedLibrary:
    """A ModelLibrary that is asked by any name; it lists real ones."""

    def __init__(self, inner: ModelLibrary, aliases: Aliases) -> None:
        self._inner = inner
        self._real = aliases.real

    async def facts(self) -> list[ModelFacts]:
        """As the inner one."""
        return await self._inner.facts()

    async def details(self, model: ModelId) -> ModelDetails:
        """As the inner one."""
        return await self._inner.details(self._real(model))

    def pull(self, reference: str) -> AsyncGenerator[PullStep, None]:
        """As the inner one."""
        return self._inner.pull(self._real(ModelId(reference)))


class AliasedTokenizing:
    """Tokenizing by any name."""

    def __init__(self, inner: Tokenizing, aliases: Aliases) -> None:
        self._inner = inner
        self._real = aliases.real

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """As the inner one."""
        return await self._inner.prompt_ids(replace(request, model=self._real(request.model)))

    async def encode(self, model: ModelId, text: str, *, framed: bool) -> tuple[int, ...]:
        """As the inner one."""
        return await self._inner.encode(self._real(model), text, framed=framed)

    async def decode(self, model: ModelId, tokens: tuple[int, ...]) -> tuple[str, ...]:
        """As the inner one."""
        return await self._inner.decode(self._real(model), tokens)

    async def join(self, model: ModelId, tokens: tuple[int, ...]) -> str:
        """As the inner one."""
        return await self._inner.join(self._real(model), tokens)

    async def context_max(self, model: ModelId) -> int:
        """As the inner one."""
        return await self._inner.context_max(self._real(model))
