"""Anthropic's Messages request as it stands on the wire: pydantic models, and their complaints in Anthropic's words.

Shapes and ranges only: `anthropic_read` reads what several fields say together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from ringleader.api.body import json_type
from ringleader.api.complaints import complaint_of
from ringleader.api.validation import Wire, schema_of
from ringleader.errors import BadRequest
from ringleader.values import Json

STOPS_MAX = 64  # each is looked for at every character of the answer


def _as_blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if isinstance(content, dict) else content  # results of some tools are one block, not a list


class BlockWire(Wire):
    """One block of any content; which fields a type wants is checked in `anthropic_history`."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: Annotated[str, Field(min_length=1)] | None = None
    name: Annotated[str, Field(min_length=1)] | None = None
    input: dict[str, Any] | None = None
    tool_use_id: Annotated[str, Field(min_length=1)] | None = None
    content: Annotated[
        list[BlockWire] | None, BeforeValidator(_as_blocks, json_schema_input_type=str | list[BlockWire] | None)
    ] = None
    is_error: bool | None = None
    source: Any = None
    title: str | None = None
    context: str | None = None
    tool_name: str | None = None


class AnthropicMessageWire(Wire):
    """Any turn. A system turn among the others is one of the newer spellings."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[BlockWire], BeforeValidator(_as_blocks, json_schema_input_type=str | list[BlockWire])]


class AnthropicToolWire(Wire):
    """A tool of the client's own, or one that its type stands for; a server's own is not shown to the model."""

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,128}$")] | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoiceWire(Wire):
    """`name` is wanted with "tool" only."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingWire(Wire):
    """How much to think, and whether to show it."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class FormatWire(Wire):
    """What the answer's text must be."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputWire(Wire):
    """The answer's form, and how much effort it is worth."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: FormatWire | None = None


class MetadataWire(Wire):
    """Whom the request is for. Read by nothing here."""

    user_id: str | None = None


class CountWire(Wire):
    """The body of `POST /v1/messages/count_tokens`: what makes the prompt."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[AnthropicMessageWire], Field(min_length=1)]
    system: Annotated[
        list[BlockWire] | None, BeforeValidator(_as_blocks, json_schema_input_type=str | list[BlockWire] | None)
    ] = None
    tools: list[AnthropicToolWire] | None = None
    tool_choice: ToolChoiceWire | None = None
    thinking: ThinkingWire | None = None
    output_config: OutputWire | None = None
    output_format: FormatWire | None = None  # an older spelling of output_config.format
    context_management: dict[str, Any] | None = None


class MessagesWire(CountWire):
    """The body of `POST /v1/messages`. null is the same as absent wherever a default exists."""

    max_tokens: Annotated[int, Field(ge=1)]
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=STOPS_MAX)] | None = None
    seed: int | None = None
    metadata: MetadataWire | None = None


class DocumentWire(Wire):
    """The source of a document that is made of blocks."""

    content: Annotated[list[BlockWire], BeforeValidator(_as_blocks, json_schema_input_type=str | list[BlockWire])]


W = TypeVar("W", bound=Wire)


def parse(kind: type[W], body: dict[str, Json], at: str = "") -> W:
    """`body`, which stands at the path `at`, as a `kind`.

    Raises:
        BadRequest: the first field that is missing, of a wrong type or out of range, by its path.
    """
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        found = complaint_of(error, body, schema_of(kind))
    why = f"Input should be {found.expected}, but is {json_type(found.got)}" if found.kind == "type" else found.text
    raise wrong(".".join([*filter(None, [at]), *map(str, found.path)]), why)


def wrong(path: str, why: str) -> BadRequest:
    """The error for a field, as Anthropic words it: the path, then what is the matter."""
    return BadRequest(f"{path}: {why}", param=path)
