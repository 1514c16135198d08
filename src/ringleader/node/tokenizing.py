"""The API's `Tokenizing` over the shelf: how the models that this node knows, or can hear of, read text."""

from __future__ import annotations

import asyncio
import datetime
import sys
from dataclasses import replace

from ringleader.errors import BadRequest
from ringleader.language.prompt import compose
from ringleader.node.shelf import Shelf
from ringleader.tokenizer import Tokenizer
from ringleader.values import ChatRequest, ModelId


class ShelfTokenizing:
    """As `api.contracts.Tokenizing`."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """The prompt that a desk would give to a ring, and also one that no desk would take for its length."""
        entry = await self._shelf.entry(request.model)
        voice = replace(entry.voice, context_max=sys.maxsize)
        prompt = await asyncio.to_thread(compose, voice, request, datetime.date.today())
        return prompt.ids

    async def encode(self, model: ModelId, text: str, *, framed: bool) -> tuple[int, ...]:
        """Off the loop: a long text takes its time."""
        tokenizer = await self._tokenizer(model)
        return tuple(await asyncio.to_thread(tokenizer.encode_framed if framed else tokenizer.encode, text))

    async def decode(self, model: ModelId, tokens: tuple[int, ...]) -> tuple[str, ...]:
        """A part of a character is shown by its bytes."""
        tokenizer = await self._tokenizer(model)
        _check_known(tokens, tokenizer)
        return tuple(tokenizer.token_bytes(token).decode("utf-8", "backslashreplace") for token in tokens)

    async def join(self, model: ModelId, tokens: tuple[int, ...]) -> str:
        """Special tokens as their text."""
        tokenizer = await self._tokenizer(model)
        _check_known(tokens, tokenizer)
        return await asyncio.to_thread(tokenizer.decode, tokens)

    async def context_max(self, model: ModelId) -> int:
        """As requests are held to it."""
        return (await self._shelf.entry(model)).voice.context_max

    async def _tokenizer(self, model: ModelId) -> Tokenizer:
        return (await self._shelf.entry(model)).voice.tokenizer


def _check_known(tokens: tuple[int, ...], tokenizer: Tokenizer) -> None:
    for index, token in enumerate(tokens):
        if not 0 <= token < tokenizer.vocab_size:
            message = f"Invalid 'tokens[{index}]': {token}. The token ids of this model are 0 to "
            raise BadRequest(f"{message}{tokenizer.vocab_size - 1}.", param=f"tokens[{index}]")
