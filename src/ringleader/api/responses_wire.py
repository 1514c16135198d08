"""The body of `POST /v1/responses` as its clients write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

from ringleader.api.openai_wire import NAME_PATTERN, EffortField, SamplingWire, Stop, StreamOptionsWire
from ringleader.api.priority import PRIORITY_MAX, ServiceTier
from ringleader.api.responses_hosted import HOSTED
from ringleader.api.responses_items import Item
from ringleader.api.validation import Wire


class FlatFunction(Wire):
    """A function that the model may call."""

    type: Literal["function"]
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FlatFormat(Wire):
    """What a custom tool's input must look like: any text, or text of a grammar."""

    type: Literal["text", "grammar"] = "text"
    syntax: Literal["lark", "regex"] | None = None
    definition: Annotated[str, Field(min_length=1)] | None = None


class FlatCustom(Wire):
    """A tool that takes one text."""

    type: Literal["custom"]
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    format: FlatFormat | None = None


class LocalShell(Wire):
    """The client's own shell: its calls come as `local_shell_call` items, and the client runs them."""

    type: Literal["local_shell"]


class Namespace(Wire):
    """Tools that belong together. Each is shown to the model by its own name, or by both where two have the same."""

    type: Literal["namespace"]
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    tools: SkipValidation[list[FlatFunction | FlatCustom]]  # each entry is read by its own type


class HostedTool(Wire):
    """What OpenAI's servers run: taken and not shown to the model; a `Warning` header tells of it."""

    type: Annotated[str, Field(pattern=rf"^({'|'.join(HOSTED)})(_\d{{4}}_\d{{2}}_\d{{2}})?$")]


ToolEntry = FlatFunction | FlatCustom | LocalShell | Namespace | HostedTool


class TextFormat(Wire):
    """What the answer's text must be. Without a schema any JSON will do; null is refused."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema", default_factory=dict)]
    strict: bool | None = None


class TextWire(Wire):
    """How the answer's text is wanted. `verbosity` is taken and changes nothing."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningWire(Wire):
    """`summary` asks for the reasoning as summaries: here it is told as it is, in one piece."""

    effort: EffortField = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesWire(SamplingWire):
    """The whole body. null is the same as absent everywhere but in model, input and a schema."""

    model: Annotated[str, Field(min_length=1)]
    input: SkipValidation[str | list[Item]]  # each entry is read by its own type
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(min_length=1)] | None = None
    store: bool | None = None
    include: list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptionsWire | None = None
    tools: SkipValidation[list[ToolEntry] | None] = None  # each entry is read by its own type
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    text: TextWire | None = None
    reasoning: ReasoningWire | None = None
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None = None
    background: bool | None = None
    stop: Stop = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: ServiceTier | None = None
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
