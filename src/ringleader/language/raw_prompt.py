"""A prompt as it is: no template before it, no grammar behind it, and all that comes is text.

The legacy completions of OpenAI, and raw requests of other APIs, end here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.errors import BadRequest
from ringleader.language.dialects.dialect import BlockReader, CallRule, Dialect
from ringleader.language.length import check_length
from ringleader.language.stream import StreamParser
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

NO_CALLS = ToolChoice("none", (), 0, 0)
# Before the answer's first id, so that it is decoded in its place: some tokenizers drop a leading space elsewhere.
LED_BY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Dialect):
    """A family that has no markup at all."""

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        """Never asked for: there are no calls."""
        raise NotImplementedError

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        """Never asked for: no block begins."""
        raise NotImplementedError


PLAIN = Plain(name="plain")


def raw_ids(
    tokenizer: Tokenizer, given: str | tuple[int, ...], max_tokens: int | None, context_max: int
) -> tuple[int, ...]:
    """The ids of a prompt: a text is framed as the tokenizer frames one of its own, ids are taken as they are.

    Raises:
        BadRequest: it is empty, or an id is not the model's.
        ContextTooLong: it does not fit.
    """
    ids = tuple(tokenizer.encode_framed(given)) if isinstance(given, str) else given
    if not ids:
        message = "'prompt' is empty, and this model begins a text with nothing: write something."
        raise BadRequest(message, param="prompt")
    for index, token in enumerate(ids):
        if not 0 <= token < tokenizer.vocab_size:
            message = f"Invalid 'prompt': token {index} is {token}. The token ids of this model are 0 to "
            raise BadRequest(f"{message}{tokenizer.vocab_size - 1}.", param="prompt")
    check_length(len(ids), max_tokens, context_max, "prompt")
    return ids


def raw_parser(tokenizer: Tokenizer, prompt: Sequence[int], stop: tuple[str, ...]) -> StreamParser:
    """Reads the answer as text that goes on where `prompt` ends."""
    return StreamParser(PLAIN, tokenizer, NO_CALLS, stop, constrained=False, after=prompt[-LED_BY:])
