"""Chat Completions' request as it stands on the wire: pydantic models, as its clients write it.

Shapes and ranges only: `openai_read` reads what several fields say together, `openai_refused` knows what we refuse.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from ringleader.api.priority import PRIORITY_MAX, ServiceTier
from ringleader.api.validation import Wire
from ringleader.values import Effort

# Each choice is a request of its own in the ring, with its own slot and cache: eight take half of the slots that a
# head runs at once, and leave the other half to other clients.
CHOICES_MAX = 8
STOPS_MAX = 4  # as OpenAI has it


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


class PartWire(Wire):
    """One part of a message's content; a plain string is read as one text part."""

    type: str
    text: str | None = None
    refusal: str | None = None


NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"


class CalledWire(Wire):
    """The function of a call in the history."""

    name: Annotated[str, Field(min_length=1)]
    arguments: str | None = None


class CustomCalledWire(Wire):
    """The custom tool of a call in the history."""

    name: Annotated[str, Field(min_length=1)]
    input: str | None = None


class ToolCallWire(Wire):
    """A call in the history. Some clients leave the type out."""

    id: Annotated[str, Field(min_length=1)]
    type: Literal["function", "custom"] = "function"
    function: CalledWire | None = None
    custom: CustomCalledWire | None = None


class MessageWire(Wire):
    """Any turn; which fields a role wants is checked in `openai_history`."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        list[PartWire] | None, BeforeValidator(_as_parts, json_schema_input_type=str | list[PartWire] | None)
    ] = None
    name: str | None = None
    tool_calls: list[ToolCallWire] | None = None
    tool_call_id: Annotated[str, Field(min_length=1)] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    audio: Any = None
    function_call: CalledWire | None = None


class FunctionWire(Wire):
    """A function that the model may call."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class GrammarWire(Wire):
    """What a custom tool's input must look like."""

    syntax: Literal["lark", "regex"]
    definition: Annotated[str, Field(min_length=1)]


class CustomFormatWire(Wire):
    """Free text, or text of a grammar."""

    type: Literal["text", "grammar"]
    grammar: GrammarWire | None = None


class CustomWire(Wire):
    """A tool that takes one text."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    format: CustomFormatWire | None = None


class ToolWire(Wire):
    """A tool of either kind."""

    type: Literal["function", "custom"]
    function: FunctionWire | None = None
    custom: CustomWire | None = None


class JsonSchemaWire(Wire):
    """The schema of an answer's text, with the name that OpenAI wants it to have.

    Without a schema any JSON will do. null is refused: it is what a client sends whose own schema got lost.
    """

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema", default_factory=dict)]
    strict: bool | None = None


class ResponseFormatWire(Wire):
    """What the answer's text must be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaWire | None = None


class PredictionWire(Wire):
    """Text that is expected in the answer, which comes sooner where that is right; nothing else changes."""

    type: Literal["content"]
    content: Annotated[list[PartWire], BeforeValidator(_as_parts, json_schema_input_type=str | list[PartWire])]


class StreamOptionsWire(Wire):
    """Obfuscation pads the chunks against eavesdroppers; it changes no answer, so it may be asked for in vain."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


Stop = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None,
    Field(max_length=STOPS_MAX),
    BeforeValidator(_as_list, json_schema_input_type=str | Annotated[list[str], Field(max_length=STOPS_MAX)] | None),
]

# Any JSON, read by `read_effort`, so that what is wrong with it is said in the API's own words.
EffortField = Annotated[Any, WithJsonSchema({"anyOf": [{"enum": list(get_args(Effort))}, {"type": "null"}]})]


class SamplingWire(Wire):
    """How tokens are picked. OpenAI's own fields, and those that local servers have beside them."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)] | None = None
    seed: int | None = None


class ChatWire(SamplingWire):
    """The body of `POST /v1/chat/completions`. null is the same as absent everywhere but in model, messages and
    the schema of a response_format."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[MessageWire], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptionsWire | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: Stop = None
    n: Annotated[int, Field(ge=1, le=CHOICES_MAX)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[ToolWire] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionWire] | None = None
    function_call: Any = None
    response_format: ResponseFormatWire | None = None
    reasoning_effort: EffortField = None
    enable_thinking: Any = None
    chat_template_kwargs: Any = None
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
    service_tier: ServiceTier | None = None
    prediction: PredictionWire | None = None
