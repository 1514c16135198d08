"""A Chat Completions body to a `ChatRequest`: what fields say together, and what a history must be.

Pure but for the seed that is drawn when the client gave none.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ringleader.api.openai_refused import refuse_unserved
from ringleader.api.openai_wire import (
    ChatWire,
    MessageWire,
    PartWire,
    ToolCallWire,
    ToolWire,
    parse_chat,
    shown,
)
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, Json, Message, ModelId, Sampling, Tool, ToolCall

INT32_MAX = 2**31 - 1  # beyond any context or vocabulary: larger counts mean "no limit" and travel as this
SEED_MASK = 2**64 - 1
_TOKEN_ID = re.compile("0|[1-9][0-9]{0,9}")
_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True)
class ChatAsked:
    """What was asked, and how the client wants it served."""

    request: ChatRequest
    stream: bool
    include_usage: bool


def read_chat(body: dict[str, Json]) -> ChatAsked:
    """`body` as a checked request.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    wire = parse_chat(body)
    refuse_unserved(body)
    if wire.n is not None and wire.n > 1:
        raise BadRequest(
            "'n' above 1 is not supported: ask again with another seed.", param="n", code="unsupported_value"
        )
    stream = wire.stream is True
    if body.get("stream_options") and not stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise BadRequest(message, param="stream_options")
    request = ChatRequest(
        model=ModelId(wire.model),
        messages=_history(wire.messages),
        sampling=_sampling(wire),
        tools=_tools(wire.tools or []),
        tool_choice=wire.tool_choice,
        parallel_tool_calls=wire.parallel_tool_calls is not False,
        max_tokens=_max_tokens(wire),
        stop=tuple(wire.stop or ()),
        top_logprobs=_top_logprobs(wire),
    )
    options = wire.stream_options
    return ChatAsked(request, stream, include_usage=options is not None and options.include_usage is True)


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


def _sampling(wire: ChatWire) -> Sampling:
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


def _tools(wires: list[ToolWire]) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    for index, wire in enumerate(wires):
        path = f"tools[{index}]"
        if wire.type == "custom":
            message = f"'{path}.type' 'custom' is not supported yet: use a function with one string parameter."
            raise BadRequest(message, param=f"{path}.type", code="unsupported_value")
        if wire.function is None:
            path += ".function"
            raise BadRequest(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
        function = wire.function
        tool = Tool(function.name, function.description or "", function.parameters, function.strict)
        if tools.setdefault(tool.name, tool) != tool:
            message = f"Invalid '{path}.function.name': another tool is named {tool.name!r} too, and they differ."
            raise BadRequest(message, param=f"{path}.function.name", code="duplicate_name")
    return tuple(tools.values())


def _history(wires: list[MessageWire]) -> tuple[Message, ...]:
    messages = tuple(_message(wire, f"messages.[{index}]") for index, wire in enumerate(wires))
    _check_results(messages)
    return messages


def _message(wire: MessageWire, path: str) -> Message:
    if wire.role == "function" or wire.function_call is not None:
        field = f"{path}.role" if wire.role == "function" else f"{path}.function_call"
        message = f"'{field}': functions are not supported: use tool_calls, and role 'tool' with a tool_call_id."
        raise BadRequest(message, param=field, code="unsupported_value")
    if wire.audio is not None:
        raise BadRequest(
            f"'{path}.audio' is not supported: only text is.", param=f"{path}.audio", code="unsupported_value"
        )
    role = _ROLES[wire.role]
    if role in ("system", "user") and wire.content is None:
        message = f"Missing required parameter: '{path}.content' (a {wire.role} message must say something)."
        raise BadRequest(message, param=f"{path}.content", code="missing_required_parameter")
    if role == "tool" and wire.tool_call_id is None:
        message = f"Missing required parameter: '{path}.tool_call_id'."
        raise BadRequest(message, param=f"{path}.tool_call_id", code="missing_required_parameter")
    if role != "assistant" and wire.tool_calls:
        message = f"Invalid '{path}.tool_calls': only assistant messages make calls."
        raise BadRequest(message, param=f"{path}.tool_calls")
    calls = wire.tool_calls or []
    return Message(
        role=role,
        content=_text(wire.content, f"{path}.content") if wire.content is not None else wire.refusal,
        reasoning=wire.reasoning_content if wire.reasoning_content is not None else wire.reasoning,
        tool_calls=tuple(_call(call, f"{path}.tool_calls.[{index}]") for index, call in enumerate(calls)),
        tool_call_id=wire.tool_call_id if role == "tool" else None,
        name=wire.name,
    )


def _text(parts: list[PartWire], path: str) -> str:
    """The parts joined with nothing between, as chat templates join them."""
    texts = []
    for index, part in enumerate(parts):
        where = f"{path}.[{index}]"
        if part.type not in ("text", "refusal"):
            message = f"'{where}.type' {shown(part.type)} is not supported: only text parts are."
            raise BadRequest(message, param=f"{where}.type", code="unsupported_value")
        text = part.text if part.type == "text" else part.refusal
        if text is None:
            where = f"{where}.{part.type}"
            raise BadRequest(f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter")
        texts.append(text)
    return "".join(texts)


def _call(wire: ToolCallWire, path: str) -> ToolCall:
    if wire.type == "custom":
        message = f"'{path}.type' 'custom' is not supported yet: only function calls are."
        raise BadRequest(message, param=f"{path}.type", code="unsupported_value")
    if wire.function is None:
        path += ".function"
        raise BadRequest(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
    return ToolCall(wire.id, wire.function.name, wire.function.arguments or "")


def _check_results(messages: tuple[Message, ...]) -> None:
    """Each run of tool messages answers the calls of the assistant turn before it, all of them, in any order."""
    owed: Counter[str] = Counter()
    for index, message in enumerate(messages):
        path = f"messages.[{index}].role"
        if message.role == "tool":
            assert message.tool_call_id is not None  # checked when the message was read
            if owed[message.tool_call_id] < 1:
                text = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                named = f"{shown(message.tool_call_id)} is no open call of the assistant message before it"
                raise BadRequest(f"Invalid parameter: {text}; {named}.", param=path)
            owed[message.tool_call_id] -= 1
        else:
            _check_paid(owed, path)
            owed = Counter(call.id for call in message.tool_calls)
    _check_paid(owed, f"messages.[{len(messages) - 1}].role")


def _check_paid(owed: Counter[str], path: str) -> None:
    missing = sorted(owed.elements())
    if missing:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
        )
        listed = ", ".join(shown(call) for call in missing[:8])
        raise BadRequest(f"{text}. The following tool_call_ids did not have response messages: {listed}", param=path)
