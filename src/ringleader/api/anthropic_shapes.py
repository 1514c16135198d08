"""What the answers of Anthropic's doors look like, for /openapi.json only; `shapes` says how and why."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ringleader.api.shapes import Shape


class AnthropicErrorDetail(Shape):
    """What went wrong; the message begins with the field. `details` tell the SDKs of a feature that is not served."""

    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "timeout_error",
        "overloaded_error",
        "api_error",
    ]
    message: str
    details: dict[str, JsonValue] | None = None


class AnthropicErrorBody(Shape):
    """An error as Anthropic's clients read it; the event that ends a stream, too."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


# ---------------------------------------------------------------- a message


class TextBlock(Shape):
    """What the model says."""

    type: Literal["text"]
    text: str


class ThinkingBlock(Shape):
    """What it thinks. Clients send the signature back; nothing here checks it."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolCaller(Shape):
    """Who calls: always the model itself."""

    type: Literal["direct"]


class ToolUseBlock(Shape):
    """A call of a tool. At the start of a streamed one `input` is empty."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, JsonValue]
    caller: ToolCaller


Block = Annotated[TextBlock | ThinkingBlock | ToolUseBlock, Field(discriminator="type")]


class CacheCreation(Shape):
    """Always 0: caches are kept without being asked for."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class OutputDetails(Shape):
    """Of the output."""

    thinking_tokens: int


class FirstUsage(Shape):
    """Tokens as they are known before the first word of the answer."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cache_creation: CacheCreation
    output_tokens: int
    service_tier: Literal["standard"]
    inference_geo: Literal["not_available"]


class LastUsage(Shape):
    """Those of a whole answer. `input_tokens` are what no cache had."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails


class WholeUsage(FirstUsage):
    """Both in one."""

    output_tokens_details: OutputDetails


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class MessageBody(Shape):
    """A whole answer. `context_management` is there if it was asked for."""

    model: str
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[Block]
    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: None
    usage: WholeUsage
    context_management: dict[str, JsonValue] | None = None


class CountBody(Shape):
    """The tokens of a prompt."""

    input_tokens: int


# ---------------------------------------------------------------- its events


class BegunMessage(Shape):
    """The message before its first word."""

    model: str
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    content: Annotated[list[Block], Field(max_length=0)]
    stop_reason: None
    stop_sequence: None
    stop_details: None
    usage: FirstUsage


class MessageStart(Shape):
    """The first event."""

    type: Literal["message_start"]
    message: BegunMessage


class BlockStart(Shape):
    """A block begins. Blocks come one after another, counted from 0."""

    type: Literal["content_block_start"]
    index: int
    content_block: Block


class TextPiece(Shape):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingPiece(Shape):
    """More of a thought."""

    type: Literal["thinking_delta"]
    thinking: str


class SignaturePiece(Shape):
    """The end of a thought."""

    type: Literal["signature_delta"]
    signature: str


class InputPiece(Shape):
    """More of the JSON text of a call's input."""

    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(Shape):
    """More of the block that is open."""

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[TextPiece | ThinkingPiece | SignaturePiece | InputPiece, Field(discriminator="type")]


class BlockStop(Shape):
    """The block is whole."""

    type: Literal["content_block_stop"]
    index: int


class EndedMessage(Shape):
    """How the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: None


class MessageDelta(Shape):
    """What is known at the end of the answer."""

    type: Literal["message_delta"]
    delta: EndedMessage
    usage: LastUsage
    context_management: dict[str, JsonValue] | None = None


class MessageStop(Shape):
    """The last event of a whole answer."""

    type: Literal["message_stop"]


class PingEvent(Shape):
    """Nothing has come for a while; may stand anywhere after the first event."""

    type: Literal["ping"]


MessageEvent = Annotated[
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | PingEvent | AnthropicErrorBody,
    Field(discriminator="type"),
]


# ---------------------------------------------------------------- models


class AnthropicModelBody(Shape):
    """A model, for those who send `anthropic-version`. `loaded`: a ring serves it now."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int | None
    max_tokens: int | None
    loaded: bool


class AnthropicModelPage(Shape):
    """A page of models, the loaded ones first."""

    data: list[AnthropicModelBody]
    has_more: bool
    first_id: str | None
    last_id: str | None
