"""Chat Completions' request as it stands on the wire: pydantic models, and their complaints in OpenAI's words.

Shapes and ranges only: `openai_read` reads what several fields say together, `openai_refused` knows what we refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ringleader.api.body import json_type
from ringleader.errors import BadRequest
from ringleader.values import Json

# Each choice is a request of its own in the ring, with its own slot and cache: eight take half of the slots that a
# head runs at once, and leave the other half to other clients.
CHOICES_MAX = 8


class Wire(BaseModel):
    """Strict (no "1" for 1, no true for 1); extra fields are ignored here and judged in `openai_refused`."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


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
    content: Annotated[list[PartWire] | None, BeforeValidator(_as_parts)] = None
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


class StreamOptionsWire(Wire):
    """Obfuscation pads the chunks against eavesdroppers; it changes no answer, so it may be asked for in vain."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatWire(Wire):
    """The body of `POST /v1/chat/completions`. null is the same as absent everywhere but in model, messages and
    the schema of a response_format."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[MessageWire], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptionsWire | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)] | None = None
    seed: int | None = None
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None, Field(max_length=4), BeforeValidator(_as_list)
    ] = None
    n: Annotated[int, Field(ge=1, le=CHOICES_MAX)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[ToolWire] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionWire] | None = None
    function_call: Any = None
    response_format: ResponseFormatWire | None = None


def parse_chat(body: dict[str, Json]) -> ChatWire:
    """`body` as a `ChatWire`.

    Raises:
        BadRequest: the first field that is missing, of a wrong type or out of range, by its path.
    """
    try:
        return ChatWire.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    raise _complaint(first["type"], first["loc"], first.get("input"), first.get("ctx") or {}, first["msg"])


def path_of(loc: Sequence[int | str]) -> str:
    """A field's path as OpenAI writes it: `messages.[1].role`, but `tools[0].function.name`."""
    dot = "." if loc and loc[0] == "messages" else ""
    steps = (f"{dot}[{step}]" if isinstance(step, int) else f".{step}" for step in loc)
    return "".join(steps).removeprefix(".")


_EITHER = {"content": "a string or an array of text parts", "stop": "a string or an array of up to 4 strings"}
_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than_equal": ("below_min_value", ">=", "ge"),
    "greater_than": ("below_min_value", ">", "gt"),
    "less_than_equal": ("above_max_value", "<=", "le"),
    "less_than": ("above_max_value", "<", "lt"),
}


def _complaint(kind: str, loc: tuple[int | str, ...], got: Json, ctx: dict[str, Any], text: str) -> BadRequest:
    path = path_of(loc)
    if kind == "missing":
        return BadRequest(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
    if kind in _EXPECTED:
        expected = _EITHER.get(str(loc[-1]), _EXPECTED[kind]) if loc else "an object"
        message = f"Invalid type for '{path}': expected {expected}, but got {json_type(got)} instead."
        return BadRequest(message, param=path, code="invalid_type")
    if kind in _BOUNDS:
        code, sign, key = _BOUNDS[kind]
        number = "decimal" if isinstance(got, float) or isinstance(ctx[key], float) else "integer"
        message = f"Invalid '{path}': expected a value {sign} {ctx[key]:g}, but got {shown(got)} instead."
        return BadRequest(message, param=path, code=f"{number}_{code}")
    if kind == "string_pattern_mismatch":
        message = f"Invalid '{path}': string does not match pattern. Expected a string that matches '{ctx['pattern']}'."
        return BadRequest(message, param=path)
    if kind == "literal_error":
        message = f"Invalid value: {shown(got)} for '{path}'. Supported values are: {ctx['expected']}."
        return BadRequest(message, param=path)
    if kind in {"too_short", "string_too_short"}:
        what = "array" if kind == "too_short" else "string"
        message = f"Invalid '{path}': {what} too short. Expected at least {ctx['min_length']}."
        return BadRequest(message, param=path, code="empty_array" if what == "array" else "empty_string")
    if kind == "too_long":
        message = f"Invalid '{path}': too long. Expected at most {ctx['max_length']} entries."
        return BadRequest(message, param=path, code="array_above_max_length")
    return BadRequest(f"Invalid '{path}': {text}.", param=path)


def shown(value: Json) -> str:
    """`value` for an error message: short, whatever the client sent."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "an integer of hundreds of digits"
    text = repr(value)
    return text if len(text) <= 64 else text[:61] + "..."
