"""What answers look like, as pydantic models: for /openapi.json only. Tests hold every real answer to them.

Handlers write plain objects; these say the same where clients and generators of clients can read it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class Shape(BaseModel):
    """All of its fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorDetail(Shape):
    """What went wrong, and in which field."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str | None


class OpenAIErrorBody(Shape):
    """An error as OpenAI's clients read it."""

    error: ErrorDetail


# ---------------------------------------------------------------- models


class ModelBody(Shape):
    """A model. `loaded`: a ring serves it now. `context_max` in tokens, where it is known."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    loaded: bool
    context_max: int | None


class ModelList(Shape):
    """All models, the loaded ones first."""

    object: Literal["list"]
    data: list[ModelBody]


# ---------------------------------------------------------------- chat completions


class TopLogprob(Shape):
    """A token with its log probability."""

    token: str
    logprob: float
    bytes: list[int]


class ScoredToken(TopLogprob):
    """The same, and the likeliest tokens at its place."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(Shape):
    """Those of a choice's text."""

    content: list[ScoredToken]
    refusal: None


class CalledFunction(Shape):
    """`arguments` is the text of a JSON object."""

    name: str
    arguments: str


class CalledCustom(Shape):
    """`input` is any text."""

    name: str
    input: str


class FunctionCall(Shape):
    """A call of a function."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class CustomCall(Shape):
    """A call of a custom tool."""

    id: str
    type: Literal["custom"]
    custom: CalledCustom


class AnswerMessage(Shape):
    """What the model says. The fields without a default are always there."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str = ""
    tool_calls: list[FunctionCall | CustomCall] = Field(default_factory=list)
    function_call: CalledFunction | None = None


class ChatUsage(Shape):
    """Tokens of the prompt and of what was generated."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: JsonValue
    ringleader: JsonValue


class ChatChoice(Shape):
    """One of `n` answers."""

    index: int
    message: AnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "function_call"]


class ChatBody(Shape):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: str | None = None
    choices: list[ChatChoice]
    usage: ChatUsage


class ChunkChoice(Shape):
    """A piece of one choice. `delta` has what is new: role, content, reasoning_content, tool_calls, ..."""

    index: int
    delta: dict[str, JsonValue]
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "function_call"] | None


class ChatChunk(Shape):
    """A piece of a streamed answer. `usage` is there if it was asked for, and not null in the last chunk."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: str | None = None
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None


# ---------------------------------------------------------------- completions


class TextLogprobs(Shape):
    """In the older shape: lists side by side, offsets into the answer's text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Shape):
    """One continuation; in a stream, a piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class TextUsage(Shape):
    """A prompt counts once, however often it is continued; `cached_tokens` of it were computed before."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]


class TextBody(Shape):
    """A whole answer, or a piece of a streamed one."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: TextUsage | None = None


# ---------------------------------------------------------------- responses


class ResponseBody(Shape):
    """A response. `output` holds items: message, reasoning, function_call, custom_tool_call, local_shell_call."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    background: Literal[False]
    error: dict[str, JsonValue] | None
    incomplete_details: dict[str, JsonValue] | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[dict[str, JsonValue]]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: dict[str, JsonValue]
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    text: dict[str, JsonValue]
    tool_choice: JsonValue
    tools: list[dict[str, JsonValue]]
    top_logprobs: int
    truncation: Literal["auto", "disabled"]
    usage: dict[str, JsonValue] | None
    user: str | None
    metadata: dict[str, str]


class ResponseEvent(BaseModel):
    """An event of a streamed response: `type` says which, `sequence_number` counts from 0."""

    model_config = ConfigDict(extra="allow")

    type: str
    sequence_number: int


class DeletedBody(Shape):
    """It is forgotten."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemPage(Shape):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, JsonValue]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class HealthBody(BaseModel):
    """`status` is "ok", or a word that says why not."""

    model_config = ConfigDict(extra="allow")

    status: str
