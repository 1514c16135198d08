"""The body of `POST /v1/completions`, OpenAI's older API: a prompt that is continued as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import BeforeValidator, Field

from ringleader.api.openai_read import INT32_MAX, SEED_MASK, read_sampling
from ringleader.api.openai_refused import REFUSED as CHAT_REFUSED
from ringleader.api.openai_refused import Refused, refuse
from ringleader.api.openai_wire import CHOICES_MAX, SamplingWire, Stop, StreamOptionsWire
from ringleader.api.priority import PRIORITY_MAX, priority_of
from ringleader.api.validation import parse
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, Json, ModelId

MAX_TOKENS_DEFAULT = 16  # OpenAI's; without a template few models find an end
LOGPROBS_MAX = 20
Raw = str | tuple[int, ...]

REFUSED: tuple[Refused, ...] = (
    *(each for each in CHAT_REFUSED if each.field not in ("best_of", "echo")),
    Refused("messages", (), "this API takes a prompt; messages belong to /v1/chat/completions"),
    Refused("tools", ([],), "calls belong to /v1/chat/completions"),
    Refused("tool_choice", ("none",), "calls belong to /v1/chat/completions"),
    Refused("response_format", ({"type": "text"},), "forms belong to /v1/chat/completions"),
)


def _as_prompts(prompt: object) -> object:
    """One prompt, a text or ids, is a list of one."""
    single = isinstance(prompt, str) or (isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], int))
    return [prompt] if single else prompt


class CompletionWire(SamplingWire):
    """The whole body. null is the same as absent everywhere but in model and prompt."""

    model: Annotated[str, Field(min_length=1)]
    prompt: Annotated[
        list[str | Annotated[list[int], Field(min_length=1)]],
        Field(min_length=1, max_length=CHOICES_MAX),
        BeforeValidator(_as_prompts, json_schema_input_type=str | list[int] | list[str | list[int]]),
    ]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=CHOICES_MAX)] | None = None
    best_of: int | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=LOGPROBS_MAX)] | None = None
    stop: Stop = None
    stream: bool | None = None
    stream_options: StreamOptionsWire | None = None
    user: str | None = None
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None


@dataclass(frozen=True, slots=True)
class CompletionAsked:
    """What was asked: each prompt is continued `choices` times, by requests in that order."""

    prompts: tuple[Raw, ...]
    requests: tuple[ChatRequest, ...]
    choices: int
    stream: bool
    include_usage: bool
    echo: bool
    logprobs: bool


def read_completion(body: dict[str, Json]) -> CompletionAsked:
    """`body` as checked requests.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    refuse(body, REFUSED)
    wire = parse(CompletionWire, body)
    choices = wire.n or 1
    _check(wire, choices, body)
    prompts = tuple(prompt if isinstance(prompt, str) else tuple(prompt) for prompt in wire.prompt)
    first = read_sampling(wire)
    request = ChatRequest(
        model=ModelId(wire.model),
        messages=(),
        sampling=first,
        max_tokens=min(wire.max_tokens or MAX_TOKENS_DEFAULT, INT32_MAX),
        stop=tuple(wire.stop or ()),
        top_logprobs=wire.logprobs,
        priority=priority_of(wire.priority, None),
    )
    seeded = [replace(first, seed=(first.seed + n) & SEED_MASK) for n in range(choices)]
    requests = tuple(replace(request, raw=prompt, sampling=each) for prompt in prompts for each in seeded)
    usage = wire.stream_options is not None and wire.stream_options.include_usage is True
    stream, echo = wire.stream is True, wire.echo is True
    return CompletionAsked(prompts, requests, choices, stream, usage, echo, wire.logprobs is not None)


def _check(wire: CompletionWire, choices: int, body: dict[str, Json]) -> None:
    if body.get("stream_options") and wire.stream is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise BadRequest(message, param="stream_options")
    if wire.best_of not in (None, choices):
        message = "'best_of' is not supported: ask for n answers, and choose among them."
        raise BadRequest(message, param="best_of", code="unsupported_parameter")
    if wire.echo is True and wire.logprobs is not None:
        message = "'echo' with 'logprobs' is not supported: the prompt's own tokens have no logprobs here."
        raise BadRequest(message, param="echo", code="unsupported_value")
    if len(wire.prompt) * choices > CHOICES_MAX:
        message = f"Invalid 'prompt': {len(wire.prompt)} prompts of n = {choices} are more than {CHOICES_MAX} answers. "
        raise BadRequest(message + "Send fewer at once.", param="prompt")
