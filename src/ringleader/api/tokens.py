"""`POST /tokenize` and `/detokenize`, in vLLM's shapes: what a text or a conversation is to a model."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import Field

from ringleader.api.body import read_object
from ringleader.api.contracts import Tokenizing
from ringleader.api.openai_read import read_chat
from ringleader.api.openai_refused import Refused, refuse
from ringleader.api.responses_read import read_response
from ringleader.api.responses_tools import in_responses_words
from ringleader.api.responses_wire import ResponsesWire
from ringleader.api.routes import Route
from ringleader.api.validation import Wire, parse
from ringleader.errors import BadRequest, CallerFault
from ringleader.values import Json, ModelId

COUNT = "/v1/responses/input_tokens"
REFUSED = (
    Refused("add_generation_prompt", (True,), "a prompt always ends where the model is to answer"),
    Refused("continue_final_message", (False,), "a prompt always ends where the model is to answer"),
)
CHAT_FIELDS = ("model", "messages", "tools", "tool_choice", "functions", "function_call", "chat_template")


class TokenizeWire(Wire):
    """Either a `prompt`, or `messages` (and `tools`) as in a chat. `add_special_tokens` is for a prompt."""

    model: Annotated[str, Field(min_length=1)]
    prompt: str | None = None
    messages: list[Json] | None = None
    tools: list[Json] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizedBody(Wire):
    """The ids, and how many there may be."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeWire(Wire):
    """The ids of a text."""

    model: Annotated[str, Field(min_length=1)]
    tokens: list[int]


class DetokenizedBody(Wire):
    """Their text."""

    prompt: str


class CountedBody(Wire):
    """How many tokens an input has."""

    object: str
    input_tokens: int


class Tokens:
    """The handlers."""

    def __init__(self, tokenizing: Tokenizing) -> None:
        self._tokenizing = tokenizing

    def routes(self) -> list[Route]:
        """Where they are served."""
        tokenize = "The token ids of a text, or of a conversation with the model's chat template around it."
        count = "How many tokens a response's input has."
        return [
            Route("POST", "/tokenize", self.tokenize, "tokens", tokenize, body=TokenizeWire, answer=TokenizedBody),
            Route(
                "POST",
                "/detokenize",
                self.detokenize,
                "tokens",
                "The text of token ids.",
                body=DetokenizeWire,
                answer=DetokenizedBody,
            ),
            Route(
                "POST",
                "/v1/responses/input_tokens",
                self.count,
                "tokens",
                count,
                body=ResponsesWire,
                answer=CountedBody,
            ),
        ]

    async def tokenize(self, request: web.Request) -> web.Response:
        """Of a prompt or of messages."""
        body = await read_object(request)
        wire = parse(TokenizeWire, body)
        refuse(body, REFUSED)
        if (wire.prompt is None) == (wire.messages is None):
            raise BadRequest("Send either 'prompt' or 'messages'.", param="prompt")
        model = ModelId(wire.model)
        if wire.prompt is not None:
            ids = await self._tokenizing.encode(model, wire.prompt, framed=wire.add_special_tokens is not False)
        else:
            asked = read_chat({field: body[field] for field in CHAT_FIELDS if field in body})
            ids = await self._tokenizing.prompt_ids(asked.request)
        texts = list(await self._tokenizing.decode(model, ids)) if wire.return_token_strs else None
        length = await self._tokenizing.context_max(model)
        told = {"count": len(ids), "max_model_len": length, "tokens": list(ids), "token_strs": texts}
        return web.json_response(told)

    async def detokenize(self, request: web.Request) -> web.Response:
        """The other way."""
        wire = parse(DetokenizeWire, await read_object(request))
        return web.json_response({"prompt": await self._tokenizing.join(ModelId(wire.model), tuple(wire.tokens))})

    async def count(self, request: web.Request) -> web.Response:
        """Without what a previous response would add, which only the node that stored it knows."""
        asked = read_response(await read_object(request))
        if asked.wire.previous_response_id is not None:
            message = "'previous_response_id' is not supported here: send the whole input."
            raise BadRequest(message, param="previous_response_id", code="unsupported_parameter")
        try:
            ids = await self._tokenizing.prompt_ids(asked.request([], {}))
        except CallerFault as fault:
            raise in_responses_words(fault, asked.tools.places) from fault
        return web.json_response({"object": "response.input_tokens", "input_tokens": len(ids)})
