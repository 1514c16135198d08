"""An Anthropic Messages body to a `ChatRequest`: what its fields say together.

Pure but for the seed that is drawn when the client gave none.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

from ringleader.api.anthropic_faults import NO_THREAD
from ringleader.api.anthropic_history import read_history
from ringleader.api.anthropic_tools import MessagesTools, read_choice, read_tools
from ringleader.api.anthropic_wire import CountWire, MessagesWire, ThinkingWire, parse, wrong
from ringleader.api.openai_read import INT32_MAX, SEED_MASK
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, ContentFormat, Json, ModelId, Sampling

Shown = Literal["shown", "omitted", "hidden"]

# Fields that would change the answer and that we cannot honour. What is in no list here changes nothing, or asks for
# what happens anyway (metadata, service_tier, speed, cache_control, context_management's edits, ...).
_REFUSED = {
    "mcp_servers": "give the model a tool for each tool of the server",
    "container": "there is no code execution here",
    "thread": "send the whole conversation in messages",
    "compaction": "summarise the conversation with a request of its own",
    "fallbacks": "send the request again to another model",
}
BUDGET = "thinking.budget_tokens is not enforced: the model thinks for as long as it does, within max_tokens"


@dataclass(frozen=True, slots=True)
class MessagesAsked:
    """What was asked, and how the client wants it served.

    `thinking` says what becomes of the model's thinking: written out, written as blocks without text, or left out.
    `edits`: the client asked for context edits, and is told that none was made.
    """

    request: ChatRequest
    stream: bool
    thinking: Shown
    edits: bool = False
    warnings: tuple[str, ...] = ()
    places: tuple[int, ...] = ()  # where the client wrote each of the request's tools


def read_messages(body: dict[str, Json]) -> MessagesAsked:
    """`body` as a checked request.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    wire = parse(MessagesWire, body)
    _refuse_unserved(body)
    tools = read_tools(wire.tools or [])
    warnings = (BUDGET,) if wire.thinking is not None and wire.thinking.type == "enabled" else ()
    sampling = Sampling(
        seed=secrets.randbits(64) if wire.seed is None else wire.seed & SEED_MASK,
        temperature=1.0 if wire.temperature is None else wire.temperature,
        top_p=wire.top_p or 1.0,
        top_k=min(wire.top_k or 0, INT32_MAX),
    )
    return MessagesAsked(
        request=_request(wire, tools, sampling, min(wire.max_tokens, INT32_MAX), tuple(wire.stop_sequences or ())),
        stream=wire.stream is True,
        thinking=_shown(wire.thinking),
        edits=wire.context_management is not None,
        warnings=(*warnings, *tools.warnings),
        places=tools.places,
    )


def read_count(body: dict[str, Json]) -> tuple[ChatRequest, tuple[int, ...]]:
    """`body` of a count as the request that is to be counted, and its tools' places. Raises as `read_messages`."""
    wire = parse(CountWire, body)
    _refuse_unserved(body)
    tools = read_tools(wire.tools or [])
    return _request(wire, tools, Sampling(seed=0), None, ()), tools.places


def _request(
    wire: CountWire, tools: MessagesTools, sampling: Sampling, max_tokens: int | None, stop: tuple[str, ...]
) -> ChatRequest:
    choice, parallel = read_choice(wire.tool_choice, tools)
    return ChatRequest(
        model=ModelId(wire.model),
        messages=read_history(wire.system, wire.messages),
        sampling=sampling,
        tools=tools.tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_tokens=max_tokens,
        stop=stop,
        content=_content(wire),
        thinking=_shown(wire.thinking) != "hidden",
        effort=wire.output_config.effort if wire.output_config is not None else None,
    )


def _content(wire: CountWire) -> ContentFormat | None:
    newer = wire.output_config.format if wire.output_config is not None else None
    if newer is not None and wire.output_format is not None and newer != wire.output_format:
        raise wrong("output_format", "it differs from output_config.format; send only that.")
    asked = newer or wire.output_format
    return None if asked is None else ContentFormat("json_schema", "output_format", asked.schema_)


def _shown(wire: ThinkingWire | None) -> Shown:
    if wire is None or wire.type == "disabled":
        return "hidden"
    return "omitted" if wire.display == "omitted" else "shown"


def _refuse_unserved(body: dict[str, Json]) -> None:
    for field, advice in _REFUSED.items():
        if body.get(field):
            message = f"{field}: this field is not supported; {advice}."
            raise BadRequest(message, param=field, code=NO_THREAD if field == "thread" else "unsupported_parameter")
