"""A Chat Completions body to a `ChatRequest`: what its fields say together.

Pure but for the seed that is drawn when the client gave none.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace

from ringleader.api.openai_history import missing, read_history, text_of
from ringleader.api.openai_refused import read_thinking, refuse_unserved
from ringleader.api.openai_tools import ToolsAsked, read_tools
from ringleader.api.openai_wire import ChatWire, ResponseFormatWire, SamplingWire
from ringleader.api.priority import priority_of
from ringleader.api.validation import parse
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, ContentFormat, Json, ModelId, Sampling, shown

INT32_MAX = 2**31 - 1  # beyond any context or vocabulary: larger counts mean "no limit" and travel as this
SEED_MASK = 2**64 - 1
_TOKEN_ID = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class ChatAsked:
    """What was asked, and how the client wants it served: `choices` answers, each to its own seed's request."""

    request: ChatRequest
    calls: ToolsAsked
    stream: bool
    include_usage: bool
    choices: int = 1
    service_tier: str | None = None

    def requests(self) -> tuple[ChatRequest, ...]:
        """One request for each choice. They differ only in their seeds."""
        first = self.request.sampling
        seeds = [(first.seed + n) & SEED_MASK for n in range(self.choices)]
        return tuple(replace(self.request, sampling=replace(first, seed=seed)) for seed in seeds)


def read_chat(body: dict[str, Json]) -> ChatAsked:
    """`body` as a checked request.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    wire = parse(ChatWire, body)
    refuse_unserved(body)
    stream = wire.stream is True
    if body.get("stream_options") and not stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise BadRequest(message, param="stream_options")
    calls = read_tools(wire)
    wish = read_thinking(body)
    request = ChatRequest(
        model=ModelId(wire.model),
        messages=read_history(wire.messages),
        sampling=read_sampling(wire),
        tools=calls.tools,
        tool_choice=calls.choice,
        parallel_tool_calls=calls.parallel,
        max_tokens=_max_tokens(wire),
        stop=tuple(wire.stop or ()),
        top_logprobs=_top_logprobs(wire),
        content=_content(wire.response_format),
        thinking=wish.thinking,
        effort=wish.effort,
        priority=priority_of(wire.priority, wire.service_tier),
        prediction="" if wire.prediction is None else text_of(wire.prediction.content, "prediction.content"),
    )
    usage = wire.stream_options is not None and wire.stream_options.include_usage is True
    return ChatAsked(request, calls, stream, usage, wire.n or 1, wire.service_tier)


def _content(wire: ResponseFormatWire | None) -> ContentFormat | None:
    if wire is None or wire.type == "text":
        return None
    if wire.type == "json_object":
        return ContentFormat("json_object")
    if wire.json_schema is None:
        raise missing("response_format.json_schema")
    described = wire.json_schema
    return ContentFormat("json_schema", described.name, described.schema_, described.strict)


def _max_tokens(wire: ChatWire) -> int | None:
    asked = wire.max_completion_tokens if wire.max_completion_tokens is not None else wire.max_tokens
    return None if asked is None else min(asked, INT32_MAX)


def _top_logprobs(wire: ChatWire) -> int | None:
    if wire.logprobs:
        return wire.top_logprobs or 0
    if wire.top_logprobs:
        message = "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled."
        raise BadRequest(message, param="top_logprobs")
    return None


def read_sampling(wire: SamplingWire) -> Sampling:
    """With the seed that is drawn where the client gave none. Raises BadRequest for a key that is no token id."""

    def given(value: float | None, default: float) -> float:
        return default if value is None else value

    return Sampling(
        seed=secrets.randbits(64) if wire.seed is None else wire.seed & SEED_MASK,
        temperature=given(wire.temperature, 1.0),
        top_p=given(wire.top_p, 1.0),
        top_k=min(max(wire.top_k or 0, 0), INT32_MAX),
        min_p=given(wire.min_p, 0.0),
        repetition_penalty=given(wire.repetition_penalty, 1.0),
        presence_penalty=given(wire.presence_penalty, 0.0),
        frequency_penalty=given(wire.frequency_penalty, 0.0),
        logit_bias=tuple((_token_id(key), bias) for key, bias in (wire.logit_bias or {}).items()),
    )


def _token_id(key: str) -> int:
    if not _TOKEN_ID.fullmatch(key) or int(key) > INT32_MAX:
        message = f"Invalid key in 'logit_bias': {shown(key)}. The keys are token ids, written as integers."
        raise BadRequest(message, param="logit_bias")
    return int(key)
